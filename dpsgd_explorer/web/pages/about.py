"""The page on methods, accessibility, privacy and sources of the site."""

from __future__ import annotations

from flask import Blueprint, Response, render_template

from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.figures.default_model import default_model_picture
from dpsgd_explorer.web.figures.svg import small
from dpsgd_explorer.web.http.networks import PREFIX_BITS
from dpsgd_explorer.web.http.visitor import COOKIE, COOKIE_SECONDS
from dpsgd_explorer.web.hub.chapters.text import WORDS_A_MINUTE
from dpsgd_explorer.web.pages.home import SHOWN_RUN, TWIN, shown_accuracy
from dpsgd_explorer.web.questions.odds import EPSILON_ALONE, THIS_RUN, Limits
from dpsgd_explorer.web.questions.rounding import (
    limit,
    nearest,
    need,
    percent,
    proven,
)
from dpsgd_explorer.web.recorded.runs import RecordedRun, recorded

bp = Blueprint("about", __name__, url_prefix="/about")
DAY_SECONDS = 24 * 3600


@bp.get("/")
def index() -> Response:
    """Shows the page."""
    return cached_page(_page)


def _page() -> str:
    run, twin = recorded(SHOWN_RUN), recorded(TWIN)
    return render_template(
        "about/index.html",
        run=run,
        twin=twin,
        accuracy=shown_accuracy(),
        default_model=default_model_picture(),
        results=results(run, twin),
        accountant=LABELS[run.config.accountant],
        model=MODELS[run.config.model],
        behind_at_first=any(
            without_privacy < private
            for (_, without_privacy), (_, private) in zip(
                twin.curve(), run.curve(), strict=True
            )
        ),
        audited=proven(run.audit["epsilon_lower"]) if run.audit else "",
        need=need,
        small=small,
        slower=nearest(run.config.learning_rate / twin.config.learning_rate, 0),
        words_a_minute=WORDS_A_MINUTE,
        cookie=COOKIE,
        cookie_days=COOKIE_SECONDS // DAY_SECONDS,
        prefix_bits=PREFIX_BITS,
        papers=sorted(SOURCES.values(), key=lambda paper: (paper.authors, paper.year)),
    )


def results(run: RecordedRun, twin: RecordedRun) -> list[tuple[str, ...]]:
    """Returns the results of the run as rows of symbol, value, unit and meaning."""
    accuracy, unprotected = (r.summary["test_accuracy"] for r in (run, twin))
    epsilon = run.summary["epsilon"]
    most = Limits.of(run.config.plan.phases, epsilon, run.config.delta).percents
    return [
        ("", percent(accuracy, 2), "%", "of unseen records classified correctly"),
        (
            "",
            percent(unprotected - accuracy, 2),
            "points",
            "is the cost of privacy in this run, compared with a run on the same "
            "batches without privacy",
        ),
        ("ε =", limit(epsilon), "", f"spent, at δ = {small(run.config.delta)}"),
        (
            "",
            most[THIS_RUN],
            "%",
            f"at most: how often an attacker is right about whether your record was in "
            f"{THIS_RUN}. A coin is right 50 %; {EPSILON_ALONE}, which covers every "
            f"procedure, would allow {most[EPSILON_ALONE]} %",
        ),
    ]
