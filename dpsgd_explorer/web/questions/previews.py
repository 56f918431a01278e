"""Fast ε after some of the steps of a planned run, at any sample rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting import Accountant, Interval, Phase
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats, meet
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase import StepCounts, has_slots
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.registry import accountant_for
from dpsgd_explorer.web.questions.quick_searches import (
    FEW_FREQUENCIES,
    quick_accountant,
)

PREVIEW_ROWS = 8  # rows of a preview that need discretised PLDs
QUICK_PREVIEW_ROWS = 3  # such rows of a preview within a few milliseconds
ALLOCATED_ROWS = 25  # rows of a preview of random allocation
RELATION = ADD_OR_REMOVE_ONE


@dataclass(frozen=True)
class Preview:
    """ε along a planned run.

    Attributes:
        steps: Some of the requested numbers of steps, always including the last one.
        epsilons: Upper bounds on ε after each of these numbers of steps.
        spent: Interval of ε after the last step.
    """

    steps: list[int]
    epsilons: list[float]
    spent: Interval

    def raised_to(self, epsilon: float) -> Preview:
        """Return the preview with a larger ε after the last step, as a bound."""
        if epsilon <= self.spent.value:
            return self
        spent = Interval.one_sided(epsilon)
        return Preview(self.steps, [*self.epsilons[:-1], epsilon], spent)


def preview(
    phases: Sequence[Phase],
    steps: Sequence[int],
    delta: float,
    accountant: str = "exact",
    *,
    quick: bool = False,
    most: float | None = None,
) -> Preview:
    """Return ε after some of the steps of a planned run.

    The last ε equals the value with which a calibration confirms a noise multiplier,
    so a target met by the calibration is met here.  ``most`` may replace that value.

    Args:
        phases: Planned steps.
        steps: Numbers of steps, ascending, at least one.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all".
        quick: If True, use wider bounds at fewer steps, as in ``quick_searches``.
        most: Known upper bound on ε of all steps, which is then not computed.

    Raises:
        AccountingError: an argument is outside its domain, or the accountant does not
            apply to the run.
    """
    chosen, delta = accountant_for(accountant), validation.delta(delta)
    most = None if most is None else validation.finite("most", most)
    if has_slots(phases):
        searcher = quick_accountant(chosen, RELATION) if quick else chosen
        return _allocated_preview(searcher, phases, steps, delta, most)
    if isinstance(chosen, ExactAccountant):
        return _exact_preview(chosen, phases, steps, delta, quick=quick, most=most)
    counts = [int(count) for count in validation.step_counts(steps)]
    spent = chosen.bounds(phases, counts, delta, RELATION)
    result = Preview(counts, [x.value for x in spent], spent[-1])
    return result if most is None else result.raised_to(most)


def _allocated_preview(
    accountant: Accountant,
    phases: Sequence[Phase],
    steps: Sequence[int],
    delta: float,
    most: float | None,
) -> Preview:
    """Return ε after at most ALLOCATED_ROWS of the steps of random allocation."""
    counts = validation.step_counts(steps)
    places = np.linspace(0, len(counts) - 1, min(ALLOCATED_ROWS, len(counts)))
    shown = [int(counts[place]) for place in np.unique(places.round().astype(int))]
    intervals = accountant.bounds(phases, shown, delta, RELATION)
    spent = intervals[-1] if most is None else Interval.one_sided(most)
    before = [min(x.value, spent.value) for x in intervals[:-1]]
    return Preview(shown, [*before, spent.value], spent)


def _exact_preview(
    accountant: Accountant,
    phases: Sequence[Phase],
    steps: Sequence[int],
    delta: float,
    *,
    quick: bool,
    most: float | None,
) -> Preview:
    """Return ε after the steps that a small contour can bound, and some others.

    Without ``most``, ε after the last step is as tight as without a preview.
    """
    counts = validation.step_counts(steps)
    searchers = accountant.searchers(RELATION)
    last = quick_accountant(accountant, RELATION) if quick else searchers[-1]
    assert isinstance(last, ExactAccountant)
    if most is None:
        two_sided = ExactAccountant(
            last.refinements, last.max_directions, last.max_frequencies
        )
        [spent] = two_sided.bounds(phases, counts[-1:], delta, RELATION)
    else:
        spent = Interval.one_sided(most)
    lower, upper = _coarse_bounds(StepCounts.along(phases, counts, RELATION), delta)
    is_shown = meet(lower, upper)
    rows = np.flatnonzero(~is_shown)
    if len(rows):
        number = QUICK_PREVIEW_ROWS if quick else PREVIEW_ROWS
        places = np.linspace(0, len(rows) - 1, number).round().astype(int)
        rows = rows[np.unique(places)]
        rows = rows[rows < len(counts) - 1]
        upper[rows] = last.epsilons(phases, counts[rows], delta, RELATION)
    upper[-1] = spent.value
    is_shown[rows] = is_shown[-1] = True
    upper = np.minimum(upper, upper[-1])  # ε never falls with the steps
    shown_counts = counts[is_shown].astype(np.int64).tolist()
    return Preview(shown_counts, upper[is_shown].tolist(), spent)


def _coarse_bounds(run: StepCounts, delta: float) -> tuple[Floats, Floats]:
    """Return bounds on ε of each row by a small contour, two arrays of shape (S,).

    More steps need fewer frequencies.  If the last row needs too many, all earlier rows
    do, and all but the first get an infinite upper bound.
    """
    coarse = ExactAccountant(refinements=0, max_frequencies=FEW_FREQUENCIES)
    lower, upper = np.zeros(len(run)), np.full(len(run), np.inf)
    ends = [0, len(run) - 1]
    lower[ends], upper[ends] = coarse.epsilon_bounds(run.rows(ends), delta)
    if not meet(lower, upper)[-1]:
        return lower, upper
    return coarse.epsilon_bounds(run, delta)
