"""The landing page: one recorded run, already drawn, and two doors."""

from __future__ import annotations

from functools import cache

from flask import Blueprint, Response, render_template

from dpsgd_explorer.accounting import ACCOUNTANTS
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.content.numbers import small
from dpsgd_explorer.web.figures.odds import odds_picture
from dpsgd_explorer.web.figures.recorded_run import accuracy_picture
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.questions.odds import percent_at_most
from dpsgd_explorer.web.questions.rounding import (
    limit,
    nearest,
    percent,
)
from dpsgd_explorer.web.recorded.runs import RecordedRun, recorded

bp = Blueprint("home", __name__)

SHOWN_RUN = "mnist-strict"
TWIN = "mnist-strict-twin"


@bp.get("/")
def index() -> Response:
    """Show the landing page."""
    return cached_page(_page)


def _page() -> str:
    run, twin = recorded(SHOWN_RUN), recorded(TWIN)
    return render_template(
        "home/index.html",
        run=run,
        twin=twin,
        accuracy=shown_accuracy(),
        odds=odds_picture("page"),
        results=results(run, twin),
        accountant=ACCOUNTANTS[run.config.accountant],
        model=MODELS[run.config.model],
        behind_at_first=any(
            other < own
            for (_, other), (_, own) in zip(twin.curve(), run.curve(), strict=True)
        ),
        slower=nearest(run.config.learning_rate / twin.config.learning_rate, 0),
    )


@cache
def shown_accuracy() -> Picture:
    """Return the picture of the recorded run."""
    return accuracy_picture(recorded(SHOWN_RUN), recorded(TWIN))


def results(run: RecordedRun, twin: RecordedRun) -> list[tuple[str, ...]]:
    """Return what the run came to: symbol, value, unit, meaning."""
    accuracy, unprotected = (one.summary["test_accuracy"] for one in (run, twin))
    epsilon = run.summary["epsilon"]
    return [
        ("", percent(accuracy, 2), "%", "of unseen records classified right"),
        (
            "",
            percent(unprotected - accuracy, 2),
            "points",
            "is what privacy cost in this run, against one run on the same batches "
            "without it",
        ),
        ("ε =", limit(epsilon), "", f"spent, at δ = {small(run.config.delta)}"),
        (
            "",
            percent_at_most(epsilon, run.config.delta),
            "%",
            "at most: how often an attacker is right about whether your record was "
            "included. A coin is right 50 %",
        ),
    ]
