"""For teachers: links with controls hidden, locked or set, and a plan per chapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from flask import Blueprint, Response, abort, render_template, request, url_for
from werkzeug.datastructures import MultiDict

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.validation import one_of
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.content.lessons import gather
from dpsgd_explorer.web.forms.limits import HIDE, LOCK, WAY_OUT, Limits, read_limits
from dpsgd_explorer.web.forms.starts import Rules, Starts, read_starts
from dpsgd_explorer.web.forms.trainer import trainer_controls
from dpsgd_explorer.web.hub.chapters.readings import reading_of
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS, TRACKS, Chapter
from dpsgd_explorer.web.hub.chapters.text import unbroken
from dpsgd_explorer.web.hub.registry import WIDGETS
from dpsgd_explorer.web.hub.widgets.base import Widget

bp = Blueprint("teach", __name__, url_prefix="/teach")
bp.add_app_template_global(gather)

TRAINER = "trainer"
SUBJECT, SETUP = "for", "setup"  # names in the builder's address
START = "start-"  # begins the names of starting values there
SHOW = "show"
WAYS = {SHOW: "shown", LOCK: "locked", HIDE: "hidden"}
NOT_TAUGHT = ("check", "sources")  # sections that are no step of a lesson
FRAME_HEIGHT = 760  # pixels, of the frame in an embed code


@dataclass(frozen=True)
class Subject:
    """What a link leads to: the trainer or a widget.

    Attributes:
        slug: Name in the builder's address.
        title: Name in words.
        controls: Label of each control, by name.
        starts: What its controls can start at, by name; the trainer has set-ups.
        endpoint: View of its page.
        values: Variable parts of the view's address.
    """

    slug: str
    title: str
    controls: Mapping[str, str]
    starts: Mapping[str, Rules]
    endpoint: str
    values: Mapping[str, Any]

    @property
    def is_framed(self) -> bool:
        """Whether other sites may show it in a frame."""
        return self.slug != TRAINER

    @property
    def words(self) -> str:
        """Its name in messages."""
        return f"“{self.title}”"

    def address(
        self, limits: Limits, starts: Starts, settings: Mapping[str, str]
    ) -> str:
        """Return its whole address on this site, with limits and settings."""
        query = urlencode({**settings, **starts.query, **limits.query}, safe=",")
        path = url_for(self.endpoint, **self.values)
        return request.host_url.rstrip("/") + path + (f"?{query}" if query else "")


def subjects() -> dict[str, Subject]:
    """Return all that a link can lead to, by name."""
    framed = {
        slug: Subject(
            slug,
            widget.title,
            widget.controls,
            widget.starts,
            "embed.widget",
            {"slug": slug},
        )
        for slug, widget in WIDGETS.items()
    }
    trainer = Subject(TRAINER, "The trainer", trainer_controls(), {}, "train.index", {})
    return framed | {TRAINER: trainer}


@bp.get("/")
def index() -> str:
    """Show the builder of links, with what was built, and all lesson plans.

    Raises:
        ConfigError: the address names a subject, control or value that there is not.
    """
    known = subjects()
    subject = known[_chosen(known)]
    limits, starts, settings = _limits(subject), _starts(subject), _settings(subject)
    return render_template(
        "teach/index.html",
        subjects=known.values(),
        subject=subject,
        limits=limits,
        starts=starts,
        ways=WAYS,
        chapters=CHAPTERS.values(),
        setup=request.args.get(SETUP, ""),
        address=subject.address(limits, starts, settings),
        height=FRAME_HEIGHT,
    )


@bp.get("/<slug>/")
def lesson(slug: str) -> Response:
    """Show the lesson plan of a chapter; 404 if there is none of this name."""
    wanted = CHAPTERS.get(slug)
    if wanted is None:
        abort(404)
    return cached_page(partial(_lesson_page, wanted))


def widgets_of(chapter: Chapter) -> list[Widget]:
    """Return the widgets that a chapter explains."""
    return [widget for widget in WIDGETS.values() if widget.chapter == chapter.slug]


def _lesson_page(chapter: Chapter) -> str:
    reading = reading_of(chapter)
    return render_template(
        "teach/lesson.html",
        chapter=chapter,
        parts=reading.parts,
        sections=[one for one in reading.sections if one[0] not in NOT_TAUGHT],
        widgets=widgets_of(chapter),
        tracks=TRACKS,
        unbroken=unbroken,
    )


def _chosen(known: Mapping[str, Subject]) -> str:
    slug = request.args.get(SUBJECT, next(iter(known)))
    return one_of(SUBJECT, slug, known, _with_the_way_out)


def _with_the_way_out(name: str, message: str) -> ConfigError:
    return ConfigError(name, f"{message} {WAY_OUT}")


def _limits(subject: Subject) -> Limits:
    """Return the limits that the builder's form asks for."""
    asked = {
        name: way
        for name, way in request.args.items()
        if name not in (SUBJECT, SETUP) and not name.startswith(START)
    }
    for name, way in asked.items():
        one_of(name, way, WAYS, _with_the_way_out)
    stated = MultiDict([(way, name) for name, way in asked.items() if way != SHOW])
    unknown = next((name for name in asked if name not in subject.controls), None)
    if unknown is not None:
        stated.add(HIDE, unknown)
    return read_limits(stated, subject.controls, subject.words)


def _starts(subject: Subject) -> Starts:
    """Return the starting values that the builder's form asks for; empty boxes none."""
    asked = {
        name.removeprefix(START): text.strip()
        for name, text in request.args.items()
        if name.startswith(START) and text.strip()
    }
    return read_starts(asked, subject.starts, subject.words)


def _settings(subject: Subject) -> dict[str, str]:
    """Return the trainer's settings of an address that was pasted, checked.

    Raises:
        ConfigError: a setting is unknown or outside its domain.
    """
    text = request.args.get(SETUP, "").strip()
    if not text or subject.is_framed:
        return {}
    given = dict(parse_qsl(urlsplit(text).query))
    settings = {name: given[name] for name in given if name not in (HIDE, LOCK)}
    TrainingConfig.from_query(settings)
    return settings
