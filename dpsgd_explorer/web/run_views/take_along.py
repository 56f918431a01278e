"""What one takes along from a training run beside its exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsgd_explorer.experiments.events import changes_of
from dpsgd_explorer.experiments.kinds import DEFAULT_KIND
from dpsgd_explorer.experiments.own_table import is_own
from dpsgd_explorer.experiments.search_config import SEARCH
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import DONE
from dpsgd_explorer.web.figures.exports.share_card import Card
from dpsgd_explorer.web.figures.run_charts.accuracy import epsilon_axis
from dpsgd_explorer.web.questions.odds import Limits
from dpsgd_explorer.web.questions.privacy import Epsilon
from dpsgd_explorer.web.questions.rounding import percent
from dpsgd_explorer.web.run_views.models import RunSummary
from dpsgd_explorer.web.run_views.registry import VIEWS
from dpsgd_explorer.web.run_views.statement import (
    bibtex,
    sources,
    statement,
    statement_of_search,
    steps_done,
)
from dpsgd_explorer.web.run_views.training import AuditWords

#: Kinds of runs that end with one.
WITH_RECEIPT = (DEFAULT_KIND, SEARCH)


@dataclass(frozen=True)
class TakeAlong:
    """Texts to paste, and files.

    Attributes:
        statement: What may be claimed, "" if nothing is known yet.
        bibtex: What the run rests on, "" if it is not private.
        weights: Bytes of the stored weights, 0 if there are none.
        is_private: Whether the weights are within a guarantee.
        has_card: Whether there is a picture to share.
        has_receipt: Whether its last event holds a receipt.
    """

    statement: str = ""
    bibtex: str = ""
    weights: int = 0
    is_private: bool = False
    has_card: bool = False
    has_receipt: bool = False


def take_along(
    run: Run, weights: int, phases: Sequence[Mapping[str, Any]]
) -> TakeAlong:
    """Return what a run offers; those of other kinds than training weights at most.

    Args:
        run: The run.
        weights: Bytes of its stored weights.
        phases: The data of its log's ``phase`` events.
    """
    spent = RunSummary.of(run, "").privacy
    is_private = spent is not None and spent.epsilon is not None
    receipt = run.kind in WITH_RECEIPT and run.state == DONE and is_private
    if run.kind == SEARCH:
        return TakeAlong(
            statement_of_search(run, spent),
            bibtex(sources(run, spent)),
            weights,
            is_private,
            _has_winner(run),
            receipt,
        )
    if run.kind != DEFAULT_KIND:
        return TakeAlong(weights=weights, is_private=is_private)
    return TakeAlong(
        statement(run, spent, phases),
        bibtex(sources(run, spent)),
        weights,
        is_private,
        run.has_ended and bool(run.summary),
        receipt,
    )


def card_of(
    run: Run,
    evaluations: Iterable[dict[str, Any]],
    phases: Sequence[Mapping[str, Any]] = (),
) -> Card | None:
    """Return the card of a training or a search that has ended, else None.

    Args:
        run: The run.
        evaluations: The data of its log's ``evaluation`` events.
        phases: The data of its ``phase`` events.
    """
    spent = RunSummary.of(run, "").privacy
    if run.kind == SEARCH and spent is not None:
        return _card_of_search(run, spent, evaluations)
    if run.kind != DEFAULT_KIND or not run.has_ended or spent is None:
        return None
    config = TrainingConfig.parse(run.config)
    is_private = spent.epsilon is not None
    axis = "epsilon" if is_private else "step"
    points = [
        (point[axis], point["test_accuracy"])
        for point in evaluations
        if point[axis] is not None
    ]
    accuracy = run.summary.get("test_accuracy")
    budget = config.wall or spent.epsilon
    return Card(
        title=VIEWS[run.kind].subject(run.config),
        accuracy="" if accuracy is None else f"{percent(accuracy)} %",
        epsilon=spent.epsilon_text,
        spent=spent.epsilon,
        delta=spent.delta,
        status=spent.status,
        points=points,
        budget=budget if is_private else None,
        is_own=is_own(config.dataset),
        axis=epsilon_axis(config),
        choice="chosen while looking" if changes_of(phases) else "",
        audit=_audited(run),
        limits=_limits(run, config, spent, phases),
    )


def _limits(
    run: Run,
    config: TrainingConfig,
    spent: Epsilon,
    phases: Sequence[Mapping[str, Any]],
) -> str:
    """Return both limits of an attacker; "" where the run's own is not known.

    That is without noise, and where a budget for changes let the steps be chosen by
    looking: the curve of the steps that were done then holds for no chooser.
    """
    if spent.epsilon is None or config.is_filtered:
        return ""
    done = steps_done(run, config, phases)
    return str(Limits.of(done, spent.epsilon, spent.delta))


def _audited(run: Run) -> str:
    """Return what a run's own audit proves, in a line; "" if nothing."""
    audit = AuditWords.of(run)
    if audit is None or not audit.lower:
        return ""
    return f"its own audit proves ε ≥ {audit.lower}, at {audit.confidence} % confidence"


def _has_winner(run: Run) -> bool:
    return run.has_ended and run.summary.get("test_accuracy") is not None


def _card_of_search(
    run: Run, spent: Epsilon, evaluations: Iterable[dict[str, Any]]
) -> Card | None:
    """Return the card of a winner, None without one."""
    if not _has_winner(run):
        return None
    return Card(
        title=VIEWS[run.kind].subject(run.config),
        accuracy=f"{percent(run.summary['test_accuracy'])} %",
        epsilon=spent.epsilon_text,
        spent=spent.epsilon,
        delta=spent.delta,
        status=spent.status,
        points=[(point["trained"], point["test_accuracy"]) for point in evaluations],
        budget=None,
        axis="step of the winner",
        choice="including the choice",
    )
