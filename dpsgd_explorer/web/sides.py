"""Between what and what the truth lies, as far as an accountant proves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.exact import ExactAccountant
from dpsgd_explorer.accounting.table import accountant_for

CLOSE = 1e-4  # relative: how near a number is tried that would spend too much


@dataclass(frozen=True)
class Sides:
    """An answer, and what encloses it; None where nothing is proven.

    Attributes:
        status: What kind of answer it is: an exact accountant whose sides do not meet
            gives a bound.
    """

    value: float
    lower: float | None
    upper: float | None
    status: str


def epsilon_sides(run: Phase, delta: float, name: str, relation: str) -> Sides:
    """Return the ε of a run from below and from above."""
    accountant = accountant_for(name, relation)
    if isinstance(accountant, ExactAccountant):
        found = accountant.bounds([run], [run.steps], delta, relation)
        low, high = float(found.lower[0]), float(found.upper[0])
        return Sides(high, low, high, _status(bool(found.meet[0])))
    value = float(accountant.epsilons([run], [run.steps], delta, relation)[0])
    return _one_sided(value, str(accountant.status))


def delta_sides(run: Phase, epsilon: float, name: str, relation: str) -> Sides:
    """Return the δ of a run from below and from above."""
    accountant = accountant_for(name, relation)
    if isinstance(accountant, ExactAccountant):
        found = accountant.delta_bounds([run], [epsilon], relation)
        low, high = float(found.lower[0]), float(found.upper[0])
        return Sides(high, low, high, _status(bool(found.meet[0])))
    value = accountant.delta([run], epsilon, relation)
    return _one_sided(value, str(accountant.status))


def curve_sides(
    run: Phase, steps: Sequence[int], delta: float, name: str
) -> tuple[list[float], str]:
    """Return ε after each number of steps, and what kind of answer the whole is."""
    accountant = accountant_for(name)
    if isinstance(accountant, ExactAccountant):
        found = accountant.bounds([run], list(steps), delta)
        return [float(value) for value in found.upper], _status(bool(found.meet.all()))
    values = accountant.epsilons([run], list(steps), delta)
    return [float(value) for value in values], str(accountant.status)


def spends_more(
    run: Phase, target: float, delta: float, name: str, relation: str
) -> bool:
    """Tell whether it is proven that a run spends more than the target."""
    lower = epsilon_sides(run, delta, name, relation).lower
    return lower is not None and lower > target


def _one_sided(value: float, status: str) -> Sides:
    return Sides(value, None, None if status == "approximation" else value, status)


def _status(meet: bool) -> str:
    return "exact" if meet else "bound"
