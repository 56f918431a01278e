"""ε of a person with several records, all of them added or removed together.

The accountants count one record.  The records of a group join the steps independently,
so that the group's largest privacy loss is known exactly (``exact.group_gaussian``),
and composes as the loss of one record does:

| run | method |
|---|---|
| one record | the exact accountant |
| steps on all records | closed form, with the noise multiplier σ / k |
| one step on a sample | closed form |
| other steps | ``exact.composition`` |
| sample rates and noise out of reach of the integrals | the bounds below |

Two upper bounds hold for any setting.  Sampling never raises ε, so that steps on all
records give one.  The other chains the guarantee of one record k times:

    δ_k(kε) <= δ_1(ε) (1 + e^ε + ... + e^((k - 1) ε)).

Source: Ganesh (2024), arXiv:2401.10294; the chain: Vadhan (2017), "The Complexity of
Differential Privacy", Lemma 2.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.intervals import Interval, interval
from dpsgd_explorer.accounting.core.log_space import log_expm1
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase import StepCounts
from dpsgd_explorer.accounting.core.root_finding import first_safe
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.composition import Composition
from dpsgd_explorer.accounting.exact.group_gaussian import GroupLoss
from dpsgd_explorer.accounting.exact.phases import are_within_reach, merged
from dpsgd_explorer.accounting.exact.pld_bounds import FFT_SIZES
from dpsgd_explorer.accounting.exact.privacy_loss import (
    Direction,
    GaussianLoss,
    PrivacyLoss,
)
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS

#: Smallest δ with a logarithm.
MIN_DELTA = 1e-300
#: Largest number of records of a person.
MAX_RECORDS = 1000
#: Records over the noise multiplier above which the integrals have too many nodes.
MAX_DISTANCE = 200.0
#: Largest product of the points of a grid of losses and the number of records.
MAX_GRID_PRODUCTS = 1 << 22
#: Precision of ε per record in the chained bound, which is rounded up.
CHAIN_PRECISION = 1e-6
#: Smallest ε per record of the chained bound.
MIN_CHAINED_EPSILON = 1e-9
#: Times that ε per record is doubled, until the chained δ is small enough.
MAX_DOUBLINGS = 12


def group_epsilon(
    *,
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    records: int,
) -> float:
    """Returns the epsilon of DP-SGD for a person with several records, rounded up.

    All records of the person are added or removed together.  Five records of a person
    cost 6.3 times the epsilon of one record here:

    >>> run = {"sample_rate": 0.01, "noise_multiplier": 1.1, "steps": 1000}
    >>> one = group_epsilon(**run, delta=1e-5, records=1)
    >>> five = group_epsilon(**run, delta=1e-5, records=5)
    >>> round(one, 4), round(five, 4)
    (1.5154, 9.5996)

    Args:
        sample_rate: Poisson inclusion probability q of each record per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound of one record; 0 gives
            infinity.
        steps: Number of steps; 0 gives 0.
        delta: In (0, 1).
        records: Number of the person's records k, from 1 to 1000.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Ganesh (2024), arXiv:2401.10294.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    return float(group_epsilon_interval([run], delta, records))


def group_epsilon_interval(
    phases: Sequence[Phase], delta: float, records: int
) -> Interval:
    """Returns the interval of the ε that all phases spend for a group of records.

    >>> spent = group_epsilon_interval([Phase(0.01, 1.1, 1000)], 1e-5, records=5)
    >>> spent.status, round(spent.lower, 4), round(float(spent), 4)
    ('exact', 9.5996, 9.5996)

    Args:
        phases: Completed phases; the list may be empty.
        delta: In (0, 1).
        records: Number of records k of the group, from 1 to 1000.

    Returns:
        Both bounds.  Their status is "bound" where they do not meet: for little noise,
        for sample rates next to 0 or 1, and for more than 200 records per unit of the
        noise multiplier.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Ganesh (2024), arXiv:2401.10294.
    """
    target, count = validation.delta(delta), _records(records)
    run = merged(StepCounts.whole(phases, ADD_OR_REMOVE_ONE))
    total = int(run.counts.sum())
    if count == 1 or total == 0 or _is_noiseless(run):
        steps = [sum(phase.steps for phase in phases)]
        return ExactAccountant().bounds(phases, steps, target, ADD_OR_REMOVE_ONE)[0]
    unsampled = epsilon_of_mu(target, _unsampled_mu(run, count))
    if all(phase.sample_rate == 1 for phase in run.phases):
        return interval(unsampled * (1 - TOLERANCES.closed_form), unsampled)
    done = [
        replace(phase, steps=int(steps))
        for phase, steps in zip(run.phases, run.counts[0], strict=True)
    ]
    [one] = ExactAccountant().bounds(done, [total], target)
    lower, upper = one.lower or 0.0, unsampled
    if _is_within_reach(run, count):
        low, high = _composed_epsilons(run, count, target)
        lower, upper = max(lower, low), min(upper, high)
    if not upper - lower <= TOLERANCES.exact_gap * upper:
        upper = min(upper, chained_epsilon(done, target, count))
    return interval(min(lower, upper), upper)


def group_delta_interval(
    phases: Sequence[Phase], epsilon: float, records: int
) -> Interval:
    """Returns the interval of δ of all phases at an ε for a group of records.

    An attacker at even odds guesses right with a probability of at most (1 + δ(0)) / 2:

    >>> at_zero = group_delta_interval([Phase(0.01, 1.1, 1000)], 0.0, records=5)
    >>> at_zero.status, round(float(at_zero), 4)
    ('exact', 0.6124)

    Args:
        phases: Completed phases; the list may be empty.
        epsilon: At least 0.
        records: Number of records k of the group, from 1 to 1000.

    Raises:
        AccountingError: as ``group_epsilon_interval``.
    """
    at, count = validation.epsilon(epsilon), _records(records)
    run = merged(StepCounts.whole(phases, ADD_OR_REMOVE_ONE))
    if count == 1 or run.counts.sum() == 0 or _is_noiseless(run):
        return ExactAccountant().delta_bounds(phases, [at], ADD_OR_REMOVE_ONE)[0]
    unsampled = delta_of_mu(at, _unsampled_mu(run, count))
    if all(phase.sample_rate == 1 for phase in run.phases):
        return interval(unsampled * (1 - TOLERANCES.closed_form), unsampled)
    lower, upper = 0.0, unsampled
    if _is_within_reach(run, count):
        low, high = _composed_deltas(run, count, at)
        lower, upper = max(lower, low), min(upper, high)
    return interval(min(lower, upper), upper)


def chained_epsilon(phases: Sequence[Phase], delta: float, records: int) -> float:
    """Returns the bound on ε that chains the guarantee of one record k times.

    It needs no other property of the mechanism than the curve of one record, and is
    larger than ``group_epsilon_interval``, here 9.6:

    >>> round(chained_epsilon([Phase(0.01, 1.1, 1000)], 1e-5, records=5), 2)
    12.42

    Args:
        phases: Completed phases.
        delta: In (0, 1).
        records: Number of records k of the group, from 1 to 1000.

    Returns:
        The bound, rounded up; infinite if there is none.

    Raises:
        AccountingError: as ``group_epsilon_interval``.

    Source: Vadhan (2017), "The Complexity of Differential Privacy", Lemma 2.2.
    """
    target, count = validation.delta(delta), _records(records)
    exact = ExactAccountant()

    def excess(epsilon: float) -> float:
        """Returns log of the chained δ at k records, over delta."""
        [one] = exact.delta_bounds(phases, [epsilon])
        x = np.array([epsilon])
        chain = log_expm1(count * x) - log_expm1(x)
        return math.log(max(one.value, MIN_DELTA)) + float(chain[0]) - math.log(target)

    steps = [sum(phase.steps for phase in phases)]
    [one] = exact.bounds(phases, steps, target)
    low, high = 0.0, max(one.value, MIN_CHAINED_EPSILON)
    for _ in range(MAX_DOUBLINGS):
        if math.isinf(high):
            break
        if excess(high) <= 0:
            if low:
                high = first_safe(excess, low, high, CHAIN_PRECISION)
            return count * high
        low, high = high, 2 * high
    return math.inf


def _records(value: object) -> int:
    return validation.whole("records", value, 1, MAX_RECORDS)


def _is_noiseless(run: StepCounts) -> bool:
    return any(phase.noise_multiplier == 0 for phase in run.phases)


def _unsampled_mu(run: StepCounts, records: int) -> float:
    """Returns μ of the Gaussian that the steps form if all records join all steps."""
    roots = [
        math.sqrt(steps) / phase.noise_multiplier
        for phase, steps in zip(run.phases, run.counts[0], strict=True)
    ]
    return records * math.hypot(*roots)


def _is_within_reach(run: StepCounts, records: int) -> bool:
    distances = [records / phase.noise_multiplier for phase in run.phases]
    return are_within_reach(run) and max(distances) <= MAX_DISTANCE


def _losses(run: StepCounts, records: int, direction: Direction) -> list[PrivacyLoss]:
    return [
        GaussianLoss(records / phase.noise_multiplier)
        if phase.sample_rate == 1
        else GroupLoss(phase.sample_rate, phase.noise_multiplier, direction, records)
        for phase in run.phases
    ]


def _composition(losses: Sequence[PrivacyLoss], records: int) -> Composition:
    """Returns the composition; finer grids take too long for many records."""
    sizes = [size for size in FFT_SIZES if size * records <= MAX_GRID_PRODUCTS]
    return Composition(losses, len(sizes))


def _composed_epsilons(
    run: StepCounts, records: int, delta: float
) -> tuple[float, float]:
    """Returns bounds on ε of steps with noise, some of them on samples."""
    directions = DIRECTIONS[run.relation]
    losses = [_losses(run, records, direction) for direction in directions]
    zero = np.zeros(1)
    if run.counts.sum() == 1:
        single = [loss.epsilon(delta) for [loss] in losses]  # type: ignore[attr-defined]
        upper = max(single) * (1 + TOLERANCES.closed_form)
        return max(single) * (1 - TOLERANCES.closed_form), upper
    # Total variations add up at most: if their sum is within δ, then ε = 0.
    variations = [float(loss.deltas(zero)[0]) for loss in losses[0]]
    if run.counts[0] @ variations * (1 + TOLERANCES.closed_form) <= delta:
        return 0.0, 0.0
    lower = upper = 0.0
    log_delta = math.log(delta)
    for direction, steps in zip(directions, losses, strict=True):
        composition = _composition(steps, records)
        chernoff = composition.chernoff_epsilons(run.counts, log_delta)[0]
        if direction == "add" and chernoff <= upper:
            continue  # nearly always smaller, as Chernoff's bound may prove
        low, high = composition.epsilons(run.counts, delta)
        lower, upper = max(lower, float(low[0])), max(upper, float(high[0]))
    return lower, upper


def _composed_deltas(
    run: StepCounts, records: int, epsilon: float
) -> tuple[float, float]:
    """Returns bounds on δ of steps with noise, some of them on samples."""
    at = np.array([epsilon])
    lower = upper = 0.0
    for direction in DIRECTIONS[run.relation]:
        steps = _losses(run, records, direction)
        if run.counts.sum() == 1:
            high = steps[0].deltas(at)
            low = high * (1 - TOLERANCES.closed_form)
            high = high * (1 + TOLERANCES.closed_form)
        else:
            composition = _composition(steps, records)
            low, high = np.exp(composition.log_deltas(run.counts[0], at))
        lower, upper = max(lower, float(low[0])), max(upper, float(high[0]))
    return lower, min(upper, 1.0)
