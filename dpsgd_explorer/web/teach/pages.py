"""Pages for teachers: the link builder, lesson plans, and a class of 90 minutes."""

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
from dpsgd_explorer.web.hub.registry import WIDGETS
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.teach.exercises import exercise

bp = Blueprint("teach", __name__, url_prefix="/teach")
bp.add_app_template_global(gather)

TRAINER = "trainer"
SUBJECT, SETUP = "for", "setup"  # query parameters of the builder
START = "start-"  # prefix of query parameters with starting values
SHOW = "show"
WAYS = {SHOW: "shown", LOCK: "locked", HIDE: "hidden"}
NOT_TAUGHT = ("check", "sources")  # sections that are not part of a lesson
FRAME_HEIGHT = 760  # px, height of the frame in an embed code


@dataclass(frozen=True)
class Subject:
    """Target of a link: the trainer or a widget.

    Attributes:
        slug: Name in the builder's address.
        title: Name on pages.
        controls: Label of each control, by name.
        starts: Allowed starting values of the controls, by name; {} for the trainer,
            whose settings are in the address.
        endpoint: Flask endpoint of the page.
        values: Arguments of the endpoint's URL.
    """

    slug: str
    title: str
    controls: Mapping[str, str]
    starts: Mapping[str, Rules]
    endpoint: str
    values: Mapping[str, Any]

    @property
    def is_framed(self) -> bool:
        """If True, other sites may show the page in a frame."""
        return self.slug != TRAINER

    @property
    def words(self) -> str:
        """Name in error messages."""
        return f"“{self.title}”"

    def address(
        self, limits: Limits, starts: Starts, settings: Mapping[str, str]
    ) -> str:
        """Returns the absolute URL with limits, starting values and settings."""
        query = urlencode({**settings, **starts.query, **limits.query}, safe=",")
        path = url_for(self.endpoint, **self.values)
        return request.host_url.rstrip("/") + path + (f"?{query}" if query else "")


def subjects() -> dict[str, Subject]:
    """Returns {slug: target} of all possible links."""
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
    """Shows the link builder with the built link, and all lesson plans.

    Raises:
        ConfigError: The address names an unknown subject, control or value.
    """
    targets = subjects()
    subject = targets[_chosen(targets)]
    limits, starts, settings = _limits(subject), _starts(subject), _settings(subject)
    return render_template(
        "teach/index.html",
        subjects=targets.values(),
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
    """Shows the lesson plan of a chapter, or status 404 if the chapter is unknown."""
    wanted = CHAPTERS.get(slug)
    if wanted is None:
        abort(404)
    return cached_page(partial(_lesson_page, wanted))


@bp.get("/<slug>/exercise.ipynb")
def notebook(slug: str) -> Response:
    """Sends the exercise of a chapter, or status 404 if the chapter is unknown."""
    wanted = CHAPTERS.get(slug)
    if wanted is None:
        abort(404)
    answer = Response(exercise(wanted), mimetype="application/x-ipynb+json")
    answer.headers.set(
        "Content-Disposition", "attachment", filename=f"exercise-{slug}.ipynb"
    )
    return answer


def widgets_of(chapter: Chapter) -> list[Widget]:
    """Returns the widgets of a chapter."""
    return [widget for widget in WIDGETS.values() if widget.chapter == chapter.slug]


def _lesson_page(chapter: Chapter) -> str:
    reading = reading_of(chapter)
    return render_template(
        "teach/lesson.html",
        chapter=chapter,
        parts=reading.parts,
        sections=[s for s in reading.sections if s[0] not in NOT_TAUGHT],
        widgets=widgets_of(chapter),
        tracks=TRACKS,
    )


def _chosen(targets: Mapping[str, Subject]) -> str:
    slug = request.args.get(SUBJECT, next(iter(targets)))
    return one_of(SUBJECT, slug, targets, _with_the_way_out)


def _with_the_way_out(name: str, message: str) -> ConfigError:
    return ConfigError(name, f"{message} {WAY_OUT}")


def _limits(subject: Subject) -> Limits:
    """Returns the limits selected in the builder's form."""
    modes = {
        name: mode
        for name, mode in request.args.items()
        if name not in (SUBJECT, SETUP) and not name.startswith(START)
    }
    for name, mode in modes.items():
        one_of(name, mode, WAYS, _with_the_way_out)
    selected = MultiDict([(mode, name) for name, mode in modes.items() if mode != SHOW])
    unknown = next((name for name in modes if name not in subject.controls), None)
    if unknown is not None:
        selected.add(HIDE, unknown)
    return read_limits(selected, subject.controls, subject.words)


def _starts(subject: Subject) -> Starts:
    """Returns the starting values in the builder's form, without empty fields."""
    texts = {
        name.removeprefix(START): text.strip()
        for name, text in request.args.items()
        if name.startswith(START) and text.strip()
    }
    return read_starts(texts, subject.starts, subject.words)


def _settings(subject: Subject) -> dict[str, str]:
    """Returns the validated settings of a pasted trainer address.

    Raises:
        ConfigError: A setting is unknown or outside its domain.
    """
    text = request.args.get(SETUP, "").strip()
    if not text or subject.is_framed:
        return {}
    values = dict(parse_qsl(urlsplit(text).query))
    settings = {name: values[name] for name in values if name not in (HIDE, LOCK)}
    TrainingConfig.from_query(settings)
    return settings
