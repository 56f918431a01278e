"""Widgets in pages, and each alone at an address that other sites may frame."""

from __future__ import annotations

import logging
from functools import partial

from flask import Blueprint, Response, abort, render_template, request
from markupsafe import Markup

from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.content.chapters import CHAPTERS
from dpsgd_explorer.web.widgets.controls import controls_of
from dpsgd_explorer.web.widgets.limits import FREE, Limits, read_limits
from dpsgd_explorer.web.widgets.registry import WIDGETS, Widget

LOG = logging.getLogger(__name__)

bp = Blueprint("embed", __name__, url_prefix="/embed")


@bp.get("/<slug>/")
def widget(slug: str) -> Response:
    """Show one widget alone; 404 if there is none of this name.

    Raises:
        ConfigError: the address hides or locks a control that there is not.
    """
    wanted = WIDGETS.get(slug)
    if wanted is None:
        abort(404)
    limits = read_limits(request.args, controls_of(slug), f"“{wanted.title}”")
    return cached_page(partial(_page, wanted, limits))


def _page(wanted: Widget, limits: Limits) -> str:
    return render_template(
        "widgets/_embed.html",
        shown=wanted,
        limits=limits,
        chapter=CHAPTERS[wanted.chapter],
    )


@bp.app_template_global("widget")
def widget_markup(slug: str, level: int = 3, limits: Limits = FREE) -> Markup:
    """Return a widget as part of a page.

    A widget that cannot be computed costs its page one line and nothing else.

    Args:
        slug: Name in ``WIDGETS``.
        level: Level of its heading, 1 to 5.
        limits: Controls that the visitor cannot set.

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
            picture=shown.module.picture(),
            data=shown.module.data(),
        )
    except Exception:
        LOG.exception("The widget %s could not be computed.", slug)
        page = render_template("widgets/_failed.html", shown=shown)
    return Markup(page)
