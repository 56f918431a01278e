"""Widgets within pages, and as single pages that other sites may embed in a frame."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from flask import Blueprint, Response, abort, render_template, request
from markupsafe import Markup

from dpsgd_explorer.web.api.answer_cache import cached_page, note_failure
from dpsgd_explorer.web.forms.limits import FREE, HIDE, LOCK, Limits, read_limits
from dpsgd_explorer.web.forms.starts import USUAL, Starts, read_starts
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.registry import WIDGETS
from dpsgd_explorer.web.hub.widgets.base import Widget

LOG = logging.getLogger(__name__)

bp = Blueprint("embed", __name__, url_prefix="/embed", template_folder="../hub")
LAST_STAGE = 3  # of a widget that several chapters show in stages


@bp.get("/<slug>/")
def widget(slug: str) -> Response:
    """Shows a page with one widget, or status 404 if no widget has this name.

    Raises:
        ConfigError: The address names an unknown control or an invalid value.
    """
    wanted = WIDGETS.get(slug)
    if wanted is None:
        abort(404)
    subject = f"“{wanted.title}”"
    limits = read_limits(request.args, wanted.controls, subject)
    texts = {n: text for n, text in request.args.items() if n not in (HIDE, LOCK)}
    starts = read_starts(texts, wanted.starts, subject)
    return cached_page(partial(_page, wanted, limits, starts))


def _page(wanted: Widget, limits: Limits, starts: Starts) -> str:
    return render_template(
        "widgets/_embed.html",
        shown=wanted,
        limits=limits,
        starts=starts.positions,
        chapter=CHAPTERS[wanted.chapter],
    )


@bp.app_template_global()
def positions(slug: str, values: Mapping[str, float]) -> Mapping[str, Sequence[float]]:
    """Returns the inputs' numbers for values of a widget's controls.

    Args:
        slug: Name in ``WIDGETS``.
        values: One value per control.

    Raises:
        KeyError: There is no widget with this name.
        ConfigError: The widget has no such control, or does not allow a value.
    """
    wanted = WIDGETS[slug]
    query = {name: str(value) for name, value in values.items()}
    return read_starts(query, wanted.starts, f"“{wanted.title}”").positions


@bp.app_template_global("widget")
def widget_markup(
    slug: str,
    level: int = 3,
    limits: Limits = FREE,
    starts: Mapping[str, Sequence[float]] = USUAL.positions,
    stage: int = LAST_STAGE,
) -> Markup:
    """Returns the markup of a widget for use within a page.

    If the widget cannot be computed, the page shows one line in its place.

    Args:
        slug: Name in ``WIDGETS``.
        level: Level of the heading, 1 to 5.
        limits: Controls that the visitor cannot set.
        starts: Initial values of the inputs, by control.
        stage: How much of a staged widget is shown, 1 to 3; the last stage has every
            control.

    Raises:
        KeyError: There is no widget with this name.
    """
    shown = WIDGETS[slug]
    try:
        page = render_template(
            shown.template,
            shown=shown,
            level=level,
            limits=limits,
            starts=starts,
            stage=stage,
            picture=shown.picture(),
            data=shown.data(),
        )
    except Exception:
        LOG.exception("The widget %s could not be computed.", slug)
        note_failure()
        page = render_template("widgets/_failed.html", shown=shown)
    return Markup(page)
