"""Accuracy against ε of many trainings and of the winners of blind searches.

The front, and what looking at all of them costs.
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
    """One run with what it spent and reached.

    Attributes:
        is_done: Whether it took every step that was planned.
        on_front: Whether no finished run reached as much with as little.
    """

    row: RunRow
    epsilon: float
    accuracy: float
    is_done: bool
    on_front: bool

    @property
    def spent(self) -> str:
        """ε as it is printed."""
        return self.row.run.privacy.epsilon_text if self.row.run.privacy else ""

    @property
    def words(self) -> str:
        """The run in words."""
        place = "on the front" if self.on_front else "beaten"
        if not self.is_done:
            place = self.row.state.lower()
        reached = f"{percent(self.accuracy)} %"
        looking = ", chosen while looking" if self.row.chosen else ""
        return f"{self.row.title}: ε = {self.spent}, {reached}, {place}{looking}"


@dataclass(frozen=True)
class Front:
    """The runs on one data set.

    Attributes:
        dots: Private runs with a known accuracy, by ε.
        missing: Runs without a dot, by why there is none.
        total: What all of them spent together.
        runs: How many were looked at.
    """

    dataset: str
    label: str
    dots: list[Dot]
    missing: dict[str, int]
    total: Total
    runs: int

    @property
    def best(self) -> list[Dot]:
        """The front, by ε."""
        return [dot for dot in self.dots if dot.on_front]

    @property
    def statuses(self) -> list[str]:
        """What kinds of truth the ε of the dots are."""
        known = [dot.row.run.privacy for dot in self.dots]
        return sorted({privacy.status for privacy in known if privacy is not None})


def has_place(run: Run) -> bool:
    """Return whether a run is of a kind that releases a model with its accuracy."""
    return VIEWS[run.kind].claims is not None


def fronts(
    runs: Sequence[Run],
    rows: Mapping[str, RunRow],
    phases: Mapping[str, list[dict[str, Any]]],
) -> list[Front]:
    """Return the front of each data set, the one with most runs first.

    Args:
        runs: Each with a place, see ``has_place``.
        rows: Each as a row, by its id.
        phases: The data of each run's ``phase`` events, by its id.
    """
    looked = {x.id: looked_at(x, phases[x.id]) for x in runs}
    spent = totals(looked.values())
    found = []
    for dataset, total in spent.items():
        mine = marked(
            [rows[x.id] for x in runs if looked[x.id].dataset == dataset], phases
        )
        dots = _dots([row for row in mine if _why_no_dot(row) == ""])
        reasons = [why for row in mine if (why := _why_no_dot(row))]
        missing = {why: reasons.count(why) for why in dict.fromkeys(reasons)}
        found.append(Front(dataset, total.label, dots, missing, total, len(mine)))
    return sorted(found, key=lambda front: -front.runs)


def _why_no_dot(row: RunRow) -> str:
    """Return why a run has no place on the chart, "" if it has one."""
    if row.is_active:
        return "not finished yet"
    if row.run.privacy is None or row.run.summary.get("test_accuracy") is None:
        return "ended without an accuracy"
    if not row.run.privacy.epsilon:
        return "without noise, so without an ε"
    return ""


def _dots(rows: Sequence[RunRow]) -> list[Dot]:
    """Return the runs by ε; one is on the front if it beats all that spent no more."""
    best, dots = -1.0, []
    for row in sorted(rows, key=_place):
        epsilon, accuracy = _place(row)[0], -_place(row)[1]
        is_done = row.run.state == DONE
        on_front = is_done and accuracy > best
        best = accuracy if on_front else best
        dots.append(Dot(row, epsilon, accuracy, is_done, on_front))
    return dots


def _place(row: RunRow) -> tuple[float, float]:
    """Return ε and, the highest first, the accuracy."""
    assert row.run.privacy is not None
    assert row.run.privacy.epsilon is not None
    return row.run.privacy.epsilon, -float(row.run.summary["test_accuracy"])
