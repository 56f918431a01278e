"""The Learning Hub: a list of chapters, and each chapter at its own address."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from flask import (
    Blueprint,
    Response,
    abort,
    current_app,
    redirect,
    render_template,
    request,
    url_for,
)
from markupsafe import Markup, escape
from werkzeug.wrappers import Response as WerkzeugResponse

from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.validation import one_of
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.content import formulas as maths
from dpsgd_explorer.web.content import numbers as quantities
from dpsgd_explorer.web.content.comparisons import compare
from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.hub.chapters.auditing import figures as audit
from dpsgd_explorer.web.hub.chapters.dp_concepts import figures as tail
from dpsgd_explorer.web.hub.chapters.in_the_real_world import deployments
from dpsgd_explorer.web.hub.chapters.parameters import figures as tables
from dpsgd_explorer.web.hub.chapters.parameters import sweep, trainer_links
from dpsgd_explorer.web.hub.chapters.planning_a_budget import figures as selection
from dpsgd_explorer.web.hub.chapters.private_linear_regression import (
    figures as regression_chapter,
)
from dpsgd_explorer.web.hub.chapters.readings import minutes, total_minutes
from dpsgd_explorer.web.hub.chapters.sgd_basics import figures as descent
from dpsgd_explorer.web.hub.chapters.table import (
    CHAPTERS,
    FULL,
    NO_BREAK_SPACE,
    TRACKS,
    Chapter,
    headings,
    neighbours,
    unbroken,
)
from dpsgd_explorer.web.hub.chapters.what_models_leak import figures as exposure
from dpsgd_explorer.web.hub.examples import classic_run as budget
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.widgets.accountant_race import widget as accountant_race
from dpsgd_explorer.web.hub.widgets.clip_histogram import widget as clip_histogram
from dpsgd_explorer.web.hub.widgets.microscope import dpsgd_step as microscope
from dpsgd_explorer.web.hub.widgets.microscope import widget as one_step
from dpsgd_explorer.web.hub.widgets.one_odd_record import widget as one_odd_record
from dpsgd_explorer.web.hub.widgets.people import group_privacy
from dpsgd_explorer.web.hub.widgets.randomised_response import survey as response
from dpsgd_explorer.web.hub.widgets.rare_class import readings as rare_class
from dpsgd_explorer.web.hub.widgets.recorded_run import widget as recorded_run
from dpsgd_explorer.web.hub.widgets.three_way_twin import widget as three_way_twin
from dpsgd_explorer.web.hub.widgets.two_worlds import widget as two_worlds
from dpsgd_explorer.web.hub.widgets.unfolded import widget as unfold
from dpsgd_explorer.web.recorded.runs import recorded

bp = Blueprint("learn", __name__, url_prefix="/learn")
bp.add_app_template_global(maths.math, "math")

PICTURES = {
    "answers": response.answers_picture,
    "price": response.price_picture,
    "tail": tail.tail_picture,
    "descent": descent.descent_picture,
    "microscope": microscope.microscope_picture,
    "step": microscope.step,
    "expected_batch": microscope.EXPECTED_BATCH_SIZE,
    "selection": selection.selection_picture,
    "audit": audit.audit_picture,
    "exposure": exposure.exposure_picture,
    "rare": rare_class.rare_picture,
    "people": group_privacy.people_picture,
    "unfold": unfold.picture,
    "growth": budget.growth_picture,
    "methods": regression_chapter.comparison_picture,
    "pull": regression_chapter.pull_picture,
    "rates": regression_chapter.rates_picture,
    "clipping": clip_histogram.picture,
}
THUMBNAILS = {
    "intro": "answers",
    "dp-concepts": "tail",
    "sgd-basics": "descent",
    "what-models-leak": "exposure",
    "dpsgd-intro": "microscope",
    "per-sample-gradients": "unfold",
    "parameters": "clipping",
    "privacy-accounting": "growth",
    "planning-a-budget": "selection",
    "auditing": "audit",
    "private-linear-regression": "methods",
    "fairness": "rare",
    "in-the-real-world": "people",
}
#: Short names of chapters, for addresses that people type.
SHORT = {
    "leaks": "what-models-leak",
    "planning": "planning-a-budget",
    "real-world": "in-the-real-world",
}
PERMANENT = 301
TWIN = "mnist-strict-twin"
TOKEN_CLASSES = {
    tokenize.COMMENT: "c",
    tokenize.NUMBER: "k",
    tokenize.STRING: "k",
}


@bp.get("/")
def index() -> Response:
    """Show all chapters."""
    return cached_page(partial(render_template, "learn/index.html"))


@bp.get("/<slug>/")
def chapter(slug: str) -> WerkzeugResponse:
    """Show one chapter, or lead from a short name to it; 404 if there is none.

    Its script takes the track out of the address; the page is the same for both.

    Raises:
        ConfigError: the address names a track that there is not.
    """
    if slug in SHORT:
        return redirect(url_for("learn.chapter", slug=SHORT[slug]), PERMANENT)
    wanted = CHAPTERS.get(slug)
    if wanted is None:
        abort(404)
    one_of("track", request.args.get("track", FULL), TRACKS)
    return cached_page(partial(_page, wanted))


def _page(wanted: Chapter) -> str:
    before, after = neighbours(wanted)
    return render_template(
        wanted.template,
        chapter=wanted,
        before=before,
        after=after,
        headings=headings,
        unbroken=unbroken,
    )


@bp.app_context_processor
def parts() -> dict[str, Any]:
    """Return what the templates of chapters and landing page may call."""
    return {
        "chapters": list(CHAPTERS.values()),
        "minutes": minutes,
        "total_minutes": total_minutes,
        "tracks": TRACKS,
        "deployments": deployments,
        "deployed": [row.cells for row in deployments.DEPLOYMENTS],
        "audit": audit,
        "exposure": exposure,
        "two_worlds": two_worlds,
        "fair": rare_class,
        "group": group_privacy,
        "accountants": LABELS,
        "clipping": clip_histogram,
        "classic": budget.classic_plan(),
        "compare": compare,
        "selection": selection,
        "unfold": unfold,
        "default": tables.default().plan,
        "described": trainer_links.described,
        "scaled_bound": trainer_links.scaled_bound,
        "smaller_batch": trainer_links.smaller_batch,
        "separation": descent.separation,
        "unclipped_rate": recorded(TWIN).config.learning_rate,
        "usual": tables.default(),
        "number": quantities,
        "odd_record": one_odd_record,
        "one_step": one_step,
        "picture": PICTURES,
        "race": accountant_race,
        "regression": regression_chapter,
        "sweep": sweep,
        "replay": recorded_run,
        "tables": tables,
        "thumbnails": THUMBNAILS,
        "toy": toy,
        "twins": three_way_twin,
        "snippet": snippet,
        "sources": SOURCES,
        "trainer": trainer,
        "protects": protects,
    }


@bp.app_template_global()
def chapter_link(slug: str, section: str = "", *, start: bool = False) -> Markup:
    """Return "chapter N" as a link; ``start``: at the start of a sentence.

    Raises:
        KeyError: there is no chapter of this slug.
    """
    address = url_for("learn.chapter", slug=slug, _anchor=section or None)
    words = (
        f"{'Chapter' if start else 'chapter'}{NO_BREAK_SPACE}{CHAPTERS[slug].number}"
    )
    return Markup('<a href="{}">{}</a>').format(address, words)


def trainer(settings: Mapping[str, object]) -> str:
    """Return the trainer's address for a configuration that it accepts.

    Raises:
        ConfigError: a setting is unknown or outside its domain.
    """
    query = _query(settings)
    TrainingConfig.from_query(query)
    return url_for("train.index", **query)


def protects(settings: Mapping[str, object]) -> bool:
    """Whether a run with these settings has a guarantee at all."""
    return TrainingConfig.from_query(_query(settings)).plan.is_private


def snippet(name: str) -> Markup:
    """Return a file of ``templates/learn/code``, comments and values marked."""
    return _marked(_source(f"learn/code/{name}"))


@cache
def _marked(source: str) -> Markup:
    pieces, end = [], (1, 0)
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        pieces.append(escape(_between(lines, end, token.start)))
        css = TOKEN_CLASSES.get(token.type) or ("w" * keyword.iskeyword(token.string))
        text = escape(token.string)
        pieces.append(
            Markup('<span class="{}">{}</span>').format(css, text) if css else text
        )
        end = token.end
    return Markup("").join(pieces).strip()


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return the text between two positions (line from 1, column from 0)."""
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]] if start[0] <= len(lines) else ""
    first = lines[start[0] - 1][start[1] :] if start[0] <= len(lines) else ""
    last = lines[end[0] - 1][: end[1]] if end[0] <= len(lines) else ""
    return first + "".join(lines[start[0] : end[0] - 1]) + last


def _source(template: str) -> str:
    loader = current_app.jinja_env.loader
    assert loader is not None  # Flask always sets one
    return loader.get_source(current_app.jinja_env, template)[0]


def _query(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return settings as an address carries them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
