"""ε after some of the steps of a planned run, quickly at any sample rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting import Accountant, Interval, Phase
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats, meet
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase import StepCounts
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.registry import accountant_for
from dpsgd_explorer.web.questions.quick_searches import (
    FEW_FREQUENCIES,
    quick_accountant,
)

PREVIEW_ROWS = 8  # of a preview, whose ε is computed by discretised PLDs
QUICK_PREVIEW_ROWS = 3  # the same within a few milliseconds
RELATION = ADD_OR_REMOVE_ONE


@dataclass(frozen=True)
class Preview:
    """What a planned run spends.

    Attributes:
        steps: Some of the numbers of steps that were asked for, the last among them.
        epsilons: ε after each of them, never too small.
        spent: Interval of ε after the last one.
    """

    steps: list[int]
    epsilons: list[float]
    spent: Interval

    def raised_to(self, epsilon: float) -> Preview:
        """Return the same with a larger ε after the last step, a bound."""
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

    The last ε is that with which a calibration confirms a noise multiplier: a target
    that is met there is met here.  Where it was met, ``most`` stands for it.

    Args:
        phases: The planned steps.
        steps: Numbers of steps, ascending, at least one.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all".
        quick: Use wider bounds of still fewer steps, as ``quick_searches``.
        most: What all steps are known to spend at most; it need not be computed.

    Raises:
        AccountingError: an argument is outside its domain, or the accountant does not
            apply to the run.
    """
    chosen, delta = accountant_for(accountant), validation.delta(delta)
    most = None if most is None else validation.finite("most", most)
    if isinstance(chosen, ExactAccountant):
        return _exact_preview(chosen, phases, steps, delta, quick=quick, most=most)
    counts = [int(count) for count in validation.step_counts(steps)]
    spent = chosen.bounds(phases, counts, delta, RELATION)
    found = Preview(counts, [x.value for x in spent], spent[-1])
    return found if most is None else found.raised_to(most)


def _exact_preview(
    accountant: Accountant,
    phases: Sequence[Phase],
    steps: Sequence[int],
    delta: float,
    *,
    quick: bool,
    most: float | None,
) -> Preview:
    """Return ε after those steps for which a small contour serves, and some others.

    Without ``most``, ε after the last step is as exact as without a preview.
    """
    done = validation.step_counts(steps)
    searchers = accountant.searchers(RELATION)
    last = quick_accountant(accountant, RELATION) if quick else searchers[-1]
    assert isinstance(last, ExactAccountant)
    if most is None:
        two_sided = ExactAccountant(
            last.refinements, last.max_directions, last.max_frequencies
        )
        [spent] = two_sided.bounds(phases, done[-1:], delta, RELATION)
    else:
        spent = Interval.one_sided(most)
    lower, upper = _coarse_bounds(StepCounts.along(phases, done, RELATION), delta)
    is_shown = meet(lower, upper)
    rows = np.flatnonzero(~is_shown)
    if len(rows):
        number = QUICK_PREVIEW_ROWS if quick else PREVIEW_ROWS
        places = np.linspace(0, len(rows) - 1, number).round().astype(int)
        rows = rows[np.unique(places)]
        rows = rows[rows < len(done) - 1]
        upper[rows] = last.epsilons(phases, done[rows], delta, RELATION)
    upper[-1] = spent.value
    is_shown[rows] = is_shown[-1] = True
    upper = np.minimum(upper, upper[-1])  # ε rises with the steps
    shown = done[is_shown].astype(np.int64).tolist()
    return Preview(shown, upper[is_shown].tolist(), spent)


def _coarse_bounds(run: StepCounts, delta: float) -> tuple[Floats, Floats]:
    """Return bounds on ε of each row by a small contour; [S], [S].

    More steps need fewer frequencies: where the last row needs too many, so do those
    before it, and infinity stands for all but the first.
    """
    coarse = ExactAccountant(refinements=0, max_frequencies=FEW_FREQUENCIES)
    lower, upper = np.zeros(len(run)), np.full(len(run), np.inf)
    ends = [0, len(run) - 1]
    lower[ends], upper[ends] = coarse.epsilon_bounds(run.rows(ends), delta)
    if not meet(lower, upper)[-1]:
        return lower, upper
    return coarse.epsilon_bounds(run, delta)
