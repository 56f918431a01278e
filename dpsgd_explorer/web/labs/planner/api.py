"""API routes of the planner: solves for one of five numbers, and computes the map."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Blueprint, url_for
from pydantic import BaseModel

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.labs.planner.budget_map import (
    BatchRow,
    BudgetMap,
    MapQuestion,
    batch_rows,
    budget_map,
)
from dpsgd_explorer.web.labs.planner.question import Budget, BudgetQuestion, solve
from dpsgd_explorer.web.questions.odds import EPSILON_ALONE, THIS_RUN, Limits
from dpsgd_explorer.web.questions.privacy import EnclosedEpsilon, rounded
from dpsgd_explorer.web.questions.privacy_models import DEFAULT_ACCOUNTANT
from dpsgd_explorer.web.questions.rounding import need

bp = Blueprint("budget_api", __name__, url_prefix="/api/v1/privacy")
question = partial(operation, bp, "GET", queue="slow")

NOISE_DIGITS = 6


class BudgetAnswer(EnclosedEpsilon):
    """All five numbers; ``epsilon`` is what they spend, at most ``budget``.

    ``odds`` is how often at most, in percent, an attacker who starts at an even
    chance is right: by epsilon alone, which covers every procedure. ``run_odds`` is the
    limit of this run, by its own trade-off curve. ``train`` is the trainer's address
    with this set-up, "" where it has no data of this size.
    """

    solve: str
    budget: float | None
    noise_multiplier: float
    expected_batch_size: int
    epochs: float
    steps: int
    sample_rate: float
    noise_per_update: float
    odds: str
    run_odds: str
    train: str
    remark: str


class BatchesAnswer(BaseModel):
    """The same ε and epochs with other batch sizes."""

    rows: list[BatchRow]


@question("/budget")
def budget(query: BudgetQuestion) -> BudgetAnswer:
    """Returns the one of five numbers that follows from the other four.

    The five numbers are ε, δ, noise multiplier, expected batch size and epochs, for a
    given number of records. ``solve`` names the number that is computed.
    """
    return answer_to(query)


@question("/budget_map")
def budget_map_(query: MapQuestion) -> BudgetMap:
    """Returns lines of equal ε over epochs and noise multiplier, for a chart.

    The lines are read off a grid and are approximate. ``/budget`` computes a single
    budget exactly.
    """
    return budget_map(query)


@question("/batch_sizes")
def batch_sizes(query: BudgetQuestion) -> BatchesAnswer:
    """Returns the noise per update for several batch sizes.

    All rows have the ε and the epochs of the given budget.
    """
    return BatchesAnswer(rows=batch_rows(query))


def answer_to(question: BudgetQuestion) -> BudgetAnswer:
    """Return the answer of the planner."""
    solved = solve(question)
    train, remark = train_address(solved)
    most = Limits.of([solved.run], solved.spent, solved.delta).percents
    return BudgetAnswer(
        **EnclosedEpsilon.between(
            solved.interval, DEFAULT_ACCOUNTANT, solved.delta
        ).model_dump(),
        solve=question.solve,
        budget=rounded(solved.epsilon),
        noise_multiplier=solved.noise_multiplier,
        expected_batch_size=solved.expected_batch_size,
        epochs=solved.epochs,
        steps=solved.steps,
        sample_rate=solved.sample_rate,
        noise_per_update=solved.noise_per_update,
        odds=most[EPSILON_ALONE],
        run_odds=most[THIS_RUN],
        train=train,
        remark=_weak(solved) or remark,
    )


def train_address(solved: Budget) -> tuple[str, str]:
    """Return the trainer's address with a budget, or "" with the reason."""
    fitting = [
        name for name, d in DATA_SETS.items() if d.train_size == solved.sample_size
    ]
    if not fitting:
        sizes = ", ".join(f"{d.label} {d.train_size:,}" for d in DATA_SETS.values())
        return "", f"To train it here, choose the records of a data set: {sizes}."
    try:
        config = TrainingConfig.parse(_settings(fitting[0], solved))
        config.plan  # noqa: B018  raises if the run is too long
    except ConfigError as error:
        return "", f"The trainer rejects these settings: {error}"
    query: dict[str, Any] = {**to_query(config)}
    return url_for("train.index", **query), ""


def _settings(dataset: str, solved: Budget) -> dict[str, Any]:
    """Return the settings of the data set's first preset, with the budget's privacy."""
    start = next(
        preset.config
        for preset in PRESETS
        if TrainingConfig.parse(preset.config).dataset == dataset
    )
    replaced = {"target_epsilon", "noise_multiplier", "steps", "epochs"}
    return {name: v for name, v in start.items() if name not in replaced} | {
        "dataset": dataset,
        "noise_multiplier": float(need(solved.noise_multiplier, NOISE_DIGITS)),
        "expected_batch_size": solved.expected_batch_size,
        "steps": solved.steps,
        "delta": solved.delta,
    }


def _weak(solved: Budget) -> str:
    if solved.delta < 1 / solved.sample_size:
        return ""
    return (
        f"δ is not below 1/N = 1/{solved.sample_size:,}: publishing whole records of a "
        "few people would satisfy it."
    )
