"""Pages of the Learning Hub: the list of chapters, and one page per chapter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from flask import (
    Blueprint,
    Response,
    abort,
    redirect,
    render_template,
    request,
    url_for,
)
from markupsafe import Markup
from werkzeug.wrappers import Response as WerkzeugResponse

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.validation import one_of
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.figures.svg import Picture, small
from dpsgd_explorer.web.hub.chapters.page import render, thumbnail
from dpsgd_explorer.web.hub.chapters.table import (
    CHAPTERS,
    FULL,
    TRACKS,
    total_minutes,
)
from dpsgd_explorer.web.hub.chapters.text import NO_BREAK_SPACE
from dpsgd_explorer.web.pages.home import SHOWN_RUN, shown_accuracy
from dpsgd_explorer.web.recorded.runs import recorded
from dpsgd_explorer.web.short_course import scenes

bp = Blueprint("learn", __name__, url_prefix="/learn")

#: Short names of chapters, for addresses that people type.
SHORT = {
    "leaks": "what-models-leak",
    "planning": "planning-a-budget",
    "real-world": "in-the-real-world",
}
PERMANENT = 301


@bp.get("/")
def index() -> Response:
    """Shows all chapters."""
    return cached_page(_index_page)


@bp.get("/short/")
def short_course() -> Response:
    """Shows the short course."""
    return cached_page(_short_course_page)


@bp.get("/<slug>/")
def chapter(slug: str) -> WerkzeugResponse:
    """Shows one chapter, or redirects from its short name.

    An unknown name gets status 404. The page is the same for both tracks; its script
    reads the track from the address.

    Raises:
        ConfigError: The address names an unknown track.
    """
    if slug in SHORT:
        return redirect(url_for("learn.chapter", slug=SHORT[slug]), PERMANENT)
    wanted = CHAPTERS.get(slug)
    if wanted is None:
        abort(404)
    one_of("track", request.args.get("track", FULL), TRACKS)
    return cached_page(partial(render, wanted))


def _index_page() -> str:
    return render_template(
        "learn/index.html",
        chapters=CHAPTERS.values(),
        thumbnails=_thumbnails(),
        total_minutes=total_minutes,
    )


def _short_course_page() -> str:
    return render_template(
        "learn/short.html",
        data=scenes.data(),
        pictures=scenes.pictures(),
        attack_goals=scenes.attack_goals(),
        accuracy=shown_accuracy(),
        delta=small(recorded(SHOWN_RUN).config.delta),
        ideas=scenes.IDEAS,
        thumbnails=_thumbnails(),
    )


def _thumbnails() -> dict[str, Markup]:
    return {slug: _flatter(thumbnail(chapter)) for slug, chapter in CHAPTERS.items()}


def _flatter(picture: Picture) -> Markup:
    """Returns the narrow drawing, or the wide one if the narrow is taller than wide."""
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', picture.narrow)
    tall = size and int(size[1]) < int(size[2])
    return picture.wide if tall else picture.narrow


@bp.app_template_global()
def chapter_link(slug: str, section: str = "", *, start: bool = False) -> Markup:
    """Returns "chapter N" as a link.

    Args:
        slug: Name of the chapter.
        section: Anchor of a section of the chapter.
        start: If True, the link starts a sentence.

    Raises:
        KeyError: The chapter does not exist.
    """
    address = url_for("learn.chapter", slug=slug, _anchor=section or None)
    words = (
        f"{'Chapter' if start else 'chapter'}{NO_BREAK_SPACE}{CHAPTERS[slug].number}"
    )
    return Markup('<a href="{}">{}</a>').format(address, words)


@bp.app_template_global()
def trainer_url(settings: Mapping[str, object]) -> str:
    """Returns the trainer's address for settings that it accepts.

    Raises:
        ConfigError: A setting is unknown or outside its domain.
    """
    query = _query(settings)
    TrainingConfig.from_query(query)
    return url_for("train.index", **query)


@bp.app_template_global()
def has_guarantee(settings: Mapping[str, object]) -> bool:
    """Returns True if a run with these settings is differentially private."""
    return TrainingConfig.from_query(_query(settings)).plan.is_private


def _query(settings: Mapping[str, object]) -> dict[str, Any]:
    """Returns settings as the query of an address."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
