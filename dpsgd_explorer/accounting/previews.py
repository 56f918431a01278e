"""The curve of a run that is still being planned: quick at any sample rate.

The exact accountant takes milliseconds for a thousand steps where one line serves them,
and as long for each step where discrete losses must serve.  A preview narrows few of
the latter, coarsely, and leaves the others out.  Its last answer is that with which
``calibration`` confirms a noise multiplier: a target met there is met here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.exact.accountant import (
    FEW_FREQUENCIES,
    ExactAccountant,
)
from dpsgd_explorer.accounting.intervals import RELATION, Sides, curve_sides, two_sided
from dpsgd_explorer.accounting.registry import accountant_for

NARROWED = 8  # steps whose ε is found by discrete losses
FEW = 3  # the same where it must be quick


@dataclass(frozen=True)
class Preview:
    """What a planned run spends.

    Attributes:
        steps: Some of those that were asked for, the last among them.
        epsilons: ε after each of them, never too small.
        spent: ε after the last one, with what encloses it.
    """

    steps: list[int]
    epsilons: list[float]
    spent: Sides

    def raised_to(self, epsilon: float) -> Preview:
        """Return the same with a larger ε after the last step, a bound."""
        if epsilon <= self.spent.value:
            return self
        spent = Sides(epsilon, None, epsilon, "bound")
        return Preview(self.steps, [*self.epsilons[:-1], epsilon], spent)


def preview(
    run: Phase,
    steps: Sequence[int],
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = RELATION,
    *,
    quick: bool = False,
) -> Preview:
    """Return ε after some of the steps.

    Args:
        run: What is planned.
        steps: Numbers of steps, ascending, at least one.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS.
        neighboring_relation: What one record may change.
        quick: With wider bounds, of still fewer steps; as a quick calibration has.

    Raises:
        AccountingError: an argument is outside its domain, or the accountant says
            nothing of the run.
    """
    *_, last = accountant_for(accountant, neighboring_relation).searchers(
        neighboring_relation, quick=quick
    )
    if not isinstance(last, ExactAccountant):
        curve = curve_sides([run], steps, delta, accountant, neighboring_relation)
        return Preview(list(steps), curve.values, curve.last)
    terms = (delta, neighboring_relation)
    done = np.asarray(steps)
    spent = last.with_both_sides().bounds([run], done[-1:], *terms)
    rough = ExactAccountant(refinements=0, frequencies=FEW_FREQUENCIES)
    lines = rough.bounds([run], done, *terms)
    rows = np.flatnonzero(~lines.meet)
    if len(rows):
        share = np.linspace(0, len(rows) - 1, FEW if quick else NARROWED)
        rows = rows[np.unique(share.round().astype(int))]
        rows = rows[rows < len(done) - 1]
    upper, shown = lines.upper.copy(), lines.meet
    if len(rows):
        upper[rows] = last.bounds([run], done[rows], *terms).upper
    upper[-1] = spent.upper[-1]
    shown[rows] = shown[-1] = True
    upper = np.minimum(upper, upper[-1])  # ε rises with the steps
    return Preview(done[shown].tolist(), upper[shown].tolist(), two_sided(spent).last)
