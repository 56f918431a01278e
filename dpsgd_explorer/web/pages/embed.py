"""Widgets in pages, and each alone at an address that other sites may frame."""

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


@bp.get("/<slug>/")
def widget(slug: str) -> Response:
    """Show one widget alone; 404 if there is none of this name.

    Raises:
        ConfigError: the address names a control that there is not, or a value that
            it does not take.
    """
    wanted = WIDGETS.get(slug)
    if wanted is None:
        abort(404)
    subject = f"“{wanted.title}”"
    limits = read_limits(request.args, wanted.controls, subject)
    given = {n: text for n, text in request.args.items() if n not in (HIDE, LOCK)}
    starts = read_starts(given, wanted.starts, subject)
    return cached_page(partial(_page, wanted, limits, starts))


def _page(wanted: Widget, limits: Limits, starts: Starts) -> str:
    return render_template(
        "widgets/_embed.html",
        shown=wanted,
        limits=limits,
        starts=starts.positions,
        chapter=CHAPTERS[wanted.chapter],
    )


@bp.app_template_global("widget")
def widget_markup(
    slug: str,
    level: int = 3,
    limits: Limits = FREE,
    starts: Mapping[str, Sequence[float]] = USUAL.positions,
) -> Markup:
    """Return a widget as part of a page.

    A widget that cannot be computed costs its page one line and nothing else.

    Args:
        slug: Name in ``WIDGETS``.
        level: Level of its heading, 1 to 5.
        limits: Controls that the visitor cannot set.
        starts: What the inputs of controls start at, by control.

    Raises:
        KeyError: there is no widget of this name.
    """
    shown = WIDGETS[slug]
    try:
        page = render_template(
            shown.template,
            shown=shown,
            level=level,
            limits=limits,
            starts=starts,
            picture=shown.picture(),
            data=shown.data(),
        )
    except Exception:
        LOG.exception("The widget %s could not be computed.", slug)
        note_failure()
        page = render_template("widgets/_failed.html", shown=shown)
    return Markup(page)
