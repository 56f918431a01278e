"""The landing page: a noise slider, a recorded run, and links to hub and trainer."""

from __future__ import annotations

from functools import cache

from flask import Blueprint, Response, render_template
from markupsafe import Markup

from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.figures.default_model import default_model_picture
from dpsgd_explorer.web.figures.odds import odds_picture
from dpsgd_explorer.web.figures.recorded_run import accuracy_picture
from dpsgd_explorer.web.figures.svg import Picture, small
from dpsgd_explorer.web.forms.limits import FREE
from dpsgd_explorer.web.forms.starts import USUAL
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS, total_minutes
from dpsgd_explorer.web.hub.widgets.noise import widget as noise
from dpsgd_explorer.web.questions.odds import EPSILON_ALONE, THIS_RUN, Limits
from dpsgd_explorer.web.questions.rounding import (
    limit,
    nearest,
    need,
    percent,
    proven,
)
from dpsgd_explorer.web.recorded.runs import RecordedRun, recorded

bp = Blueprint("home", __name__)

SHOWN_RUN = "mnist-strict"
TWIN = "mnist-strict-twin"


@bp.get("/")
def index() -> Response:
    """Shows the landing page."""
    return cached_page(_page)


def _page() -> str:
    run, twin = recorded(SHOWN_RUN), recorded(TWIN)
    return render_template(
        "home/index.html",
        run=run,
        twin=twin,
        accuracy=shown_accuracy(),
        odds=odds_picture("page"),
        default_model=default_model_picture(),
        results=results(run, twin),
        noise_slider=noise_slider(),
        accountant=LABELS[run.config.accountant],
        model=MODELS[run.config.model],
        behind_at_first=any(
            without_privacy < private
            for (_, without_privacy), (_, private) in zip(
                twin.curve(), run.curve(), strict=True
            )
        ),
        audited=proven(run.audit["epsilon_lower"]) if run.audit else "",
        chapters=CHAPTERS.values(),
        total_minutes=total_minutes,
        need=need,
        small=small,
        slower=nearest(run.config.learning_rate / twin.config.learning_rate, 0),
    )


def noise_slider() -> Markup:
    """Returns the slider with its drawing, data and script."""
    page = render_template(
        noise.WIDGET.template,
        shown=noise.WIDGET,
        level=2,
        limits=FREE,
        starts=USUAL.positions,
        picture=noise.WIDGET.picture(),
        data=noise.WIDGET.data(),
        delta=small(noise.levels()[0].config.plan.delta),
    )
    return Markup(page)


@cache
def shown_accuracy() -> Picture:
    """Returns the picture of the recorded run."""
    return accuracy_picture(recorded(SHOWN_RUN), recorded(TWIN))


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
