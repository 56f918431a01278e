"""An answer with what encloses it: between what the truth lies, and what it is called.

An accountant's status is what its answers are as a rule; an answer has its own.  The
exact accountant's is exact where its two sides meet, and else a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Phase, Status
from dpsgd_explorer.accounting.exact.accountant import Bounds, ExactAccountant
from dpsgd_explorer.accounting.registry import accountant_for

RELATION = "add_or_remove_one"
APPROXIMATION = "approximation"


@dataclass(frozen=True)
class Sides:
    """An answer, and what encloses it; None where nothing is proven.

    Attributes:
        status: "exact", "bound" or "approximation": of this very answer.
    """

    value: float
    lower: float | None
    upper: float | None
    status: Status


@dataclass(frozen=True)
class CurveSides:
    """Answers along a run, and what encloses each; None where nothing is proven.

    Attributes:
        status: Of all together: exact if each of them is.
    """

    values: list[float]
    lower: list[float] | None
    upper: list[float] | None
    status: Status

    @property
    def last(self) -> Sides:
        """The last answer, with the status of all."""
        lower = None if self.lower is None else self.lower[-1]
        upper = None if self.upper is None else self.upper[-1]
        return Sides(self.values[-1], lower, upper, self.status)


def epsilon_sides(
    phases: Sequence[Phase],
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = RELATION,
) -> Sides:
    """Return the ε that all phases spend, from below and from above.

    Raises:
        AccountingError: an argument is outside its domain, or the accountant says
            nothing of what was done.
    """
    total = sum(phase.steps for phase in phases)
    return curve_sides(phases, [total], delta, accountant, neighboring_relation).last


def curve_sides(
    phases: Sequence[Phase],
    steps: Sequence[int],
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = RELATION,
) -> CurveSides:
    """Return ε after each number of steps, from below and from above.

    Raises:
        AccountingError: as ``epsilon_sides``.
    """
    chosen = accountant_for(accountant, neighboring_relation)
    slack = domains.delta(delta)
    if isinstance(chosen, ExactAccountant):
        found = chosen.bounds(phases, list(steps), slack, neighboring_relation)
        return two_sided(found)
    spent = chosen.epsilons(phases, list(steps), slack, neighboring_relation)
    return _one_sided([float(value) for value in spent], chosen.status)


def delta_sides(
    phases: Sequence[Phase],
    epsilon: float,
    accountant: str = "exact",
    neighboring_relation: str = RELATION,
) -> Sides:
    """Return the δ at which all phases spend this ε, from below and from above.

    Raises:
        AccountingError: as ``epsilon_sides``.
    """
    chosen = accountant_for(accountant, neighboring_relation)
    promised = domains.epsilon(epsilon)
    if isinstance(chosen, ExactAccountant):
        bounds = chosen.delta_bounds(phases, [promised], neighboring_relation)
        return two_sided(bounds).last
    value = chosen.delta(phases, promised, neighboring_relation)
    return _one_sided([value], chosen.status).last


def spends_more(
    phases: Sequence[Phase],
    target: float,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = RELATION,
) -> bool:
    """Tell whether it is proven that the phases spend more than the target."""
    lower = epsilon_sides(phases, delta, accountant, neighboring_relation).lower
    return lower is not None and lower > target


def two_sided(found: Bounds) -> CurveSides:
    """Return the exact accountant's answers, the upper side as their values."""
    lower = [float(value) for value in found.lower]
    upper = [float(value) for value in found.upper]
    return CurveSides(upper, lower, upper, "exact" if found.meet.all() else "bound")


def _one_sided(values: list[float], status: Status) -> CurveSides:
    return CurveSides(values, None, None if status == APPROXIMATION else values, status)
