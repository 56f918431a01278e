"""Accuracy against ε of many trainings and of the winners of blind searches.

Computes the Pareto front, and the joint ε of looking at all runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.questions.looked_at import Total, totals
from dpsgd_explorer.web.questions.rounding import percent
from dpsgd_explorer.web.run_views.listing import RunRow, looked_at, marked
from dpsgd_explorer.web.run_views.registry import VIEWS

DONE = "done"


@dataclass(frozen=True)
class Dot:
    """One run with its ε and accuracy.

    Attributes:
        is_done: If True, the run took all planned steps.
        on_front: If True, no finished run is as accurate at a smaller or equal ε.
    """

    row: RunRow
    epsilon: float
    accuracy: float
    is_done: bool
    on_front: bool

    @property
    def spent(self) -> str:
        """ε as text."""
        return self.row.run.privacy.epsilon_text if self.row.run.privacy else ""

    @property
    def words(self) -> str:
        """Description of the run."""
        position = "on the front" if self.on_front else "beaten"
        if not self.is_done:
            position = self.row.state.lower()
        reached = f"{percent(self.accuracy)} %"
        looking = ", chosen while looking" if self.row.chosen else ""
        return f"{self.row.title}: ε = {self.spent}, {reached}, {position}{looking}"


@dataclass(frozen=True)
class Front:
    """The runs on one data set.

    Attributes:
        dots: Private runs with a known accuracy, by ε.
        missing: Number of runs without a dot, by reason.
        total: Joint ε of all runs.
        runs: Number of runs that were looked at.
    """

    dataset: str
    label: str
    dots: list[Dot]
    missing: dict[str, int]
    total: Total
    runs: int

    @property
    def best(self) -> list[Dot]:
        """The runs on the front, by ε."""
        return [dot for dot in self.dots if dot.on_front]

    @property
    def statuses(self) -> list[str]:
        """Statuses of the ε values of the dots."""
        terms = [dot.row.run.privacy for dot in self.dots]
        return sorted({privacy.status for privacy in terms if privacy is not None})


def has_place(run: Run) -> bool:
    """Returns whether a run's kind releases a model with an accuracy."""
    return VIEWS[run.kind].claims is not None


def fronts(
    runs: Sequence[Run],
    rows: Mapping[str, RunRow],
    phases: Mapping[str, list[dict[str, Any]]],
) -> list[Front]:
    """Returns the front of each data set, starting with the most runs.

    Args:
        runs: Runs for which ``has_place`` is true.
        rows: Row of each run, by the run's id.
        phases: Data of each run's ``phase`` events, by the run's id.
    """
    runs_looked_at = {x.id: looked_at(x, phases[x.id]) for x in runs}
    spent = totals(runs_looked_at.values())
    all_fronts = []
    for dataset, total in spent.items():
        own_rows = marked(
            [rows[x.id] for x in runs if runs_looked_at[x.id].dataset == dataset],
            phases,
        )
        dots = _dots([row for row in own_rows if _why_no_dot(row) == ""])
        reasons = [why for row in own_rows if (why := _why_no_dot(row))]
        missing = {why: reasons.count(why) for why in dict.fromkeys(reasons)}
        all_fronts.append(
            Front(dataset, total.label, dots, missing, total, len(own_rows))
        )
    return sorted(all_fronts, key=lambda front: -front.runs)


def _why_no_dot(row: RunRow) -> str:
    """Returns the reason why a run is not on the chart, "" if it is."""
    if row.is_active:
        return "not finished yet"
    if row.run.privacy is None or row.run.summary.get("test_accuracy") is None:
        return "ended without an accuracy"
    if not row.run.privacy.epsilon:
        return "without noise, so without an ε"
    return ""


def _dots(rows: Sequence[RunRow]) -> list[Dot]:
    """Returns the runs by ε; one is on the front if it beats all with at most its ε."""
    best, dots = -1.0, []
    for row in sorted(rows, key=_sort_key):
        epsilon, accuracy = _sort_key(row)[0], -_sort_key(row)[1]
        is_done = row.run.state == DONE
        on_front = is_done and accuracy > best
        best = accuracy if on_front else best
        dots.append(Dot(row, epsilon, accuracy, is_done, on_front))
    return dots


def _sort_key(row: RunRow) -> tuple[float, float]:
    """Returns (ε, negative accuracy), so that higher accuracies come first."""
    assert row.run.privacy is not None
    assert row.run.privacy.epsilon is not None
    return row.run.privacy.epsilon, -float(row.run.summary["test_accuracy"])
