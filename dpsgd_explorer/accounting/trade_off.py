"""The attacker's curve: how many members can be found for a rate of false alarms.

For one direction (the record is there, or is not), let D(x) be δ at ε = log x, for all
x > 0.  The best test with false positive rate α finds

    TPR(α) = min over x of αx + D(x)

of the members.  D is convex, falls from D(0) = 1, and D(x) = 1 - x + x D'(1/x) with D'
of the other direction.  So from δ at finitely many ε follow

- an upper bound: the least at these x;
- a lower bound: between two of them D lies above the chords to either side, continued.

Source: Dong, Roth and Su (2019), arXiv:1905.02383v3, Propositions 2.4 and 2.5.

Notation: E values of ε, V of x, F rates of false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.phase_limits import TRADE_OFF, check_count
from dpsgd_explorer.accounting.exact.accountant import Bounds, ExactAccountant
from dpsgd_explorer.accounting.intervals import APPROXIMATION, RELATION, CurveSides
from dpsgd_explorer.accounting.registry import accountant_for

DELTAS = np.concatenate([np.geomspace(1e-9, 0.05, 24), np.arange(0.08, 1.0, 0.06)])
LARGEST = 700.0  # whose exponential is a float
SPREAD = np.linspace(0.0, 1.0, 48) ** 1.5  # of the exact accountant's ε, to the largest


def trade_off(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    *,
    false_positive_rates: Sequence[float],
    accountant: str = "exact",
    neighboring_relation: str = RELATION,
) -> list[float]:
    """Return the largest true positive rate at each false positive rate.

    Args:
        sample_rate: Poisson inclusion probability q a step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 hides nothing.
        steps: Steps done; 0 tells nothing.
        false_positive_rates: From 0 to 1.
        accountant: Name in ACCOUNTANTS.
        neighboring_relation: What one record may change.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    terms = (accountant, neighboring_relation)
    return trade_off_sides([run], false_positive_rates, *terms).values


def trade_off_sides(
    phases: Sequence[Phase],
    false_positive_rates: Sequence[float],
    accountant: str = "exact",
    neighboring_relation: str = RELATION,
) -> CurveSides:
    """Return the same of all phases, with a test that finds as many, and a bound.

    Raises:
        AccountingError: an argument is outside its domain, or the accountant says
            nothing of what was done.
    """
    chosen = accountant_for(accountant, neighboring_relation)
    alarms = rates_of(false_positive_rates)
    if not any(phase.steps for phase in phases):
        same = [float(alarm) for alarm in alarms]
        return CurveSides(same, same, same, "exact")
    if isinstance(chosen, ExactAccountant) and (shown := _shown(phases)):
        found = (shown + (1 - shown) * alarms).tolist()
        most = [1.0] * len(found)
        return CurveSides(most, found, most, "exact" if shown == 1 else "bound")
    if isinstance(chosen, ExactAccountant):
        low, high = _exact(chosen, phases, alarms, neighboring_relation)
        return CurveSides(high.tolist(), low.tolist(), high.tolist(), "bound")
    total = [sum(phase.steps for phase in phases)]

    def spent(slack: float) -> float:
        return float(chosen.epsilons(phases, total, slack, neighboring_relation)[0])

    found = most_found(alarms, spent).tolist()
    if chosen.status == APPROXIMATION:
        return CurveSides(found, None, None, APPROXIMATION)
    return CurveSides(found, None, found, "bound")


def _exact(
    chosen: ExactAccountant, phases: Sequence[Phase], alarms: Floats, relation: str
) -> tuple[Floats, Floats]:
    """Return the largest true positive rates from below and from above; [F], [F]."""
    check_count([chosen], phases, relation, **TRADE_OFF)
    total = sum(phase.steps for phase in phases)
    top = float(chosen.epsilons(phases, [total], DELTAS[0], relation)[0])
    losses = min(top, LARGEST) * SPREAD  # δ at many ε costs little more than at one
    ways = chosen.directions(phases, losses.tolist(), relation)
    one, other = ways[0], ways[-1]
    low = np.maximum(
        _least(alarms, losses, one, other), _least(alarms, losses, other, one)
    )
    high = _most(alarms, losses, np.maximum(one.upper, other.upper))
    return np.minimum(np.maximum(low, alarms), high), high


def _shown(phases: Sequence[Phase]) -> float:
    """Return the probability that a record takes part in a step without noise."""
    hidden = [(1 - p.sample_rate) ** p.steps for p in phases if p.noise_multiplier == 0]
    return 1 - math.prod(hidden)


def most_found(alarms: Floats, spent: Callable[[float], float]) -> Floats:
    """Return the true positive rates that an ε at each δ allows at most; [F] -> [F]."""
    kept = np.array([spent(float(slack)) for slack in DELTAS])
    losses = np.minimum(kept, LARGEST)
    return _most(alarms, losses, np.where(losses < kept, 1.0, DELTAS))


def _most(alarms: Floats, losses: Floats, deltas: Floats) -> Floats:
    """Return what pairs of ε and δ, kept in both directions, allow; [F]."""
    high = np.exp(losses)[:, None] * alarms + deltas[:, None]  # [E, F]
    low = 1 - np.exp(-losses)[:, None] * (1 - deltas[:, None] - alarms)
    return np.asarray(np.minimum(np.minimum(high, low).min(axis=0), 1.0))


def _least(alarms: Floats, losses: Floats, one: Bounds, other: Bounds) -> Floats:
    """Return what tests of one direction reach at least; [F]."""
    away, mirrored = np.exp(losses), np.exp(-losses[:0:-1])
    rest = [
        1 - mirrored + mirrored * side[:0:-1] for side in (other.lower, other.upper)
    ]
    x = np.concatenate([[0.0], mirrored, away])  # [V]
    lower = np.concatenate([[1.0], rest[0], one.lower])
    upper = np.concatenate([[1.0], rest[1], one.upper])
    keep = np.concatenate([[True], np.diff(x) > 0])
    x, lower, upper = x[keep], lower[keep], upper[keep]
    # Between x[i] and x[i + 1]: chords from the left, and from the right, continued.
    falls = np.concatenate([[-1.0], (lower[1:] - upper[:-1]) / np.diff(x)])[:-1]
    rises = np.concatenate([(upper[2:] - lower[1:-1]) / np.diff(x)[1:], [0.0]])
    gap = lower[1:] - lower[:-1] - rises * np.diff(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = gap / (falls - rises)
    inside = np.isfinite(share) & (share > 0) & (share < np.diff(x))
    share = np.where(inside, share, 0.0)
    corners = x[:-1] + share, lower[:-1] + share * np.where(inside, falls, 0.0)
    places = np.concatenate([x, corners[0], x[-1:]])
    values = np.concatenate([lower, corners[1], [0.0]])
    return np.asarray((np.outer(places, alarms) + values[:, None]).min(axis=0))


def rates_of(values: Sequence[float]) -> Floats:
    """Return false positive rates as they are meant, [F].

    Raises:
        AccountingError: one is not from 0 to 1.
    """
    return np.array([_rate(value) for value in values], dtype=np.float64)


def _rate(value: object) -> float:
    number = domains.finite("false_positive_rates", value)
    if not 0 <= number <= 1:
        domains.refuse("false_positive_rates", "from 0 to 1", value)
    return number
