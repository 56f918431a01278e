"""Poisson batches that are cut to a maximum size, as accelerators need fixed shapes.

A batch is drawn by Poisson sampling.  If it has more than B records, B of them stay,
chosen at random.  ``exact.truncated_poisson`` bounds one step from above and from
below; steps compose as they do without a cap.  With a cap about five standard
deviations above the expected batch size, ε hardly changes.

For a noise multiplier below 0.2 the integrals cannot be trusted, and another bound is
used.  Let Ψ = P(Binomial(N, q) > B).  For every data set, the outputs of T steps with
and without a cap differ with probability at most TΨ, so that

    |δ_B(ε) - δ(ε)| <= TΨ (1 + e^ε).

Source of this bound: Chua et al. (2024), "Scalable DP-SGD: Shuffling vs. Poisson
Subsampling", arXiv:2411.04205, on truncated batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.initial_guesses import noise_guess
from dpsgd_explorer.accounting.core.intervals import Interval, interval
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.root_finding import (
    first_safe,
    least_noise,
    relative_excess,
    unreachable,
)
from dpsgd_explorer.accounting.core.tolerances import MAX_EXPONENT, TOLERANCES
from dpsgd_explorer.accounting.core.trade_off import largest_rates
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.composition import Composition
from dpsgd_explorer.accounting.exact.phases import MIN_NOISE
from dpsgd_explorer.accounting.exact.pld_bounds import MAX_REFINEMENTS
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyLoss
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS
from dpsgd_explorer.accounting.exact.truncated_poisson import (
    TruncatedStep,
    binomial_tail,
)
from dpsgd_explorer.accounting.trade_off_curves import (
    checked_rates,
    trade_off_intervals,
)
from dpsgd_explorer.errors import AccountingError

#: Largest number of records that is accepted, of a data set or a batch.
MAX_RECORDS = 10**12
#: Factor on ε in each round of the fixed-point iteration of ``_by_excess``: the slack
#: lets the iteration end.
EPSILON_GROWTH = 1 + 1e-9
#: Rounds of this iteration, after which ε is considered unbounded.
MAX_ROUNDS = 60
#: Refinements of discretised PLDs at each δ of a trade-off curve, which is a bound.
CURVE_REFINEMENTS = 1
#: Relative tolerance of the noise multiplier: each evaluation may take milliseconds.
NOISE_TOLERANCE = 1e-5


def truncated_poisson_epsilon(
    *,
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    sample_size: int,
    max_batch_size: int,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> Interval:
    """Returns the interval of ε of steps whose Poisson batches are cut.

    Batches of 100 of 10,000 records on average, and of 130 at most:

    >>> spent = truncated_poisson_epsilon(
    ...     sample_rate=0.01,
    ...     noise_multiplier=1.1,
    ...     steps=100,
    ...     delta=1e-6,
    ...     sample_size=10_000,
    ...     max_batch_size=130,
    ... )
    >>> round(float(spent), 3)
    2.565

    Args:
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: At least 0.
        delta: In (0, 1).
        sample_size: Records N of the larger of two neighbouring data sets.
        max_batch_size: Largest number of records of a batch, B.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain; or the noise multiplier is
            below 0.2, and so small a cap is exceeded too often for any ε at this delta.

    Source: Chua et al. (2024), arXiv:2411.04205, and "Tighter Privacy Analysis for
    Truncated Poisson Sampling" (2025), arXiv:2508.15089.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    data = _sizes(sample_size, max_batch_size)
    bounds = truncated_bounds(run, delta, *data, neighboring_relation)
    if bounds.lower is not None:
        return bounds
    step = TruncatedStep(run.sample_rate, run.noise_multiplier, *data)
    least = replace(run, sample_rate=step.least_rate)
    exact, relation = ExactAccountant(), NeighboringRelation.of(neighboring_relation)
    [uncut] = exact.bounds([least], [run.steps], delta, relation)
    assert uncut.lower is not None
    return interval(min(uncut.lower, bounds.value), bounds.value)


def truncated_poisson_noise_multiplier(
    *,
    target_epsilon: float,
    sample_rate: float,
    steps: int,
    delta: float,
    sample_size: int,
    max_batch_size: int,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> float:
    """Returns about the least noise with which steps on cut batches meet a target.

    >>> sigma = truncated_poisson_noise_multiplier(
    ...     target_epsilon=1.0,
    ...     sample_rate=0.01,
    ...     steps=100,
    ...     delta=1e-6,
    ...     sample_size=10_000,
    ...     max_batch_size=130,
    ... )
    >>> round(sigma, 3)
    1.417

    Args:
        target_epsilon: Greater than 0.
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        steps: At least 1.
        delta: In (0, 1).
        sample_size: Records N of the larger of two neighbouring data sets.
        max_batch_size: Largest number of records of a batch, B.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Returns:
        A noise multiplier whose upper bound on ε is at most the target.  Where lower
        and upper bound are close, it is within about 1e-5 of the least such multiplier,
        relative to it.

    Raises:
        AccountingError: an argument is outside its domain, or no noise reaches the
            target.

    Source: as ``truncated_poisson_epsilon``.
    """
    target = validation.target_epsilon(target_epsilon)
    steps, delta = validation.steps(steps, least=1), validation.delta(delta)
    data = (sample_size, max_batch_size, neighboring_relation)

    def spent(noise: float) -> float:
        run = Phase(sample_rate, noise, steps)
        return truncated_bounds(run, delta, *data, refinements=1).value

    least = spent(MAX_NOISE_MULTIPLIER)
    if least > target:
        raise unreachable(target_epsilon, least)

    def excess(noise: float) -> float:
        try:
            return relative_excess(spent(noise), target)
        except AccountingError:  # the cap is exceeded too often for so little noise
            return 1.0

    floor = 2 * MIN_NOISE  # ε jumps here: below it, the bound by TΨ is used
    if excess(floor) <= 0 < excess(math.nextafter(floor, 0.0)):
        return floor
    start = noise_guess(target, validation.sample_rate(sample_rate), steps, delta)
    return least_noise(excess, start, NOISE_TOLERANCE)


def truncated_poisson_trade_off(
    *,
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    false_positive_rates: Sequence[float] | float,
    sample_size: int,
    max_batch_size: int,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> list[Interval]:
    """Returns the interval of the largest true positive rate on cut batches, per rate.

    A test reaches the lower bound on the data set of ``TruncatedStep.least_rate``.

    >>> [best] = truncated_poisson_trade_off(
    ...     sample_rate=0.01,
    ...     noise_multiplier=1.1,
    ...     steps=100,
    ...     false_positive_rates=0.1,
    ...     sample_size=10_000,
    ...     max_batch_size=130,
    ... )
    >>> round(float(best), 3)
    0.124

    Args:
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 hides nothing.
        steps: At least 0.
        false_positive_rates: From 0 to 1; one number is a list of one.
        sample_size: Records N of the larger of two neighbouring data sets.
        max_batch_size: Largest number of records of a batch, B.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain; or the noise multiplier is
            below 0.2, and so small a cap is exceeded too often.

    Source: as ``truncated_poisson_epsilon``.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    rates = checked_rates(false_positive_rates)
    data = _sizes(sample_size, max_batch_size)
    terms = (*data, neighboring_relation, CURVE_REFINEMENTS)
    high = largest_rates(rates, lambda x: truncated_bounds(run, x, *terms).value)
    rate = run.sample_rate
    if data[1] < data[0] and run.noise_multiplier:
        rate = TruncatedStep(rate, run.noise_multiplier, *data).least_rate
    least = rates.tolist()
    if rate:
        uncut = replace(run, sample_rate=rate)
        tests = trade_off_intervals([uncut], least, "exact", neighboring_relation)
        least = [x.lower for x in tests if x.lower is not None]
    low = np.minimum(least, high)
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    return [Interval(upper, lower, upper, "bound") for lower, upper in pairs]


def truncated_bounds(
    run: Phase,
    delta: float,
    sample_size: int,
    max_batch_size: int,
    neighboring_relation: str,
    refinements: int = MAX_REFINEMENTS,
) -> Interval:
    """Returns the interval of ε; its lower bound is None where it needs extra work.

    Raises:
        AccountingError: as ``truncated_poisson_epsilon``.
    """
    relation = NeighboringRelation.of(neighboring_relation)
    delta = validation.delta(delta)
    size, cap = _sizes(sample_size, max_batch_size)
    if run.steps == 0 or run.noise_multiplier == 0 or cap >= size:
        exact = ExactAccountant(refinements)
        return exact.bounds([run], [run.steps], delta, relation)[0]
    step = TruncatedStep(run.sample_rate, run.noise_multiplier, size, cap)
    if not step.is_within_reach:
        return _by_excess(run, delta, size, cap, relation)
    losses = [step.loss(direction) for direction in DIRECTIONS[relation]]
    return Interval.one_sided(_composed(losses, run.steps, delta, refinements))


def _sizes(sample_size: int, max_batch_size: int) -> tuple[int, int]:
    """Returns both sizes, checked."""
    size = validation.whole("sample_size", sample_size, 1, MAX_RECORDS)
    return size, validation.whole("max_batch_size", max_batch_size, 1, MAX_RECORDS)


def _composed(
    losses: Sequence[PrivacyLoss], steps: int, delta: float, refinements: int
) -> float:
    """Returns the upper bound on ε of ``steps`` steps in the worst direction."""

    def single(epsilon: float) -> float:
        return max(float(x.deltas(np.array([epsilon]))[0]) for x in losses)

    # Total variations add up at most: if their sum is within δ, then ε = 0.
    variation = steps * single(0.0) * (1 + TOLERANCES.closed_form)
    if variation <= delta:
        return 0.0
    if steps == 1:
        aim = delta / (1 + TOLERANCES.closed_form)
        high = max(loss.loss_range(aim)[1] for loss in losses)
        return high and first_safe(lambda x: single(x) - aim, 0.0, high)
    counts = np.array([[float(steps)]])
    compositions = [Composition([loss], refinements) for loss in losses]
    upper = [composition.epsilons(counts, delta)[1][0] for composition in compositions]
    return max(float(max(upper)), 0.0)


def _by_excess(
    run: Phase, delta: float, size: int, cap: int, relation: NeighboringRelation
) -> Interval:
    """Returns the interval of ε by the probability that any batch is cut."""
    exact = ExactAccountant()
    excess = run.steps * binomial_tail(size, run.sample_rate, cap)

    def epsilon(loss: float, side: int) -> Interval:
        """Returns ε at δ less (side 1), or plus (side -1), TΨ (1 + e^loss)."""
        moved = delta - side * excess * (1 + math.exp(min(loss, MAX_EXPONENT)))
        if moved <= 0:
            raise AccountingError(
                f"max_batch_size must be larger for delta = {delta!r} and a noise "
                f"multiplier below 0.2, got {cap!r}, which a batch of the {run.steps} "
                f"steps exceeds with a probability of up to {min(excess, 1.0):.2g}. "
                "Raise max_batch_size.",
                field="max_batch_size",
            )
        capped = min(moved, 1 - 1e-12)
        return exact.bounds([run], [run.steps], capped, relation)[0]

    upper = epsilon(0.0, 1).value
    # ε is raised until it is an upper bound at the δ that TΨ (1 + e^ε) leaves.
    for _ in range(MAX_ROUNDS):
        raised = upper * EPSILON_GROWTH
        following = epsilon(raised, 1).value
        if following <= raised:
            upper = raised
            break
        upper = following
    else:
        raise AccountingError(
            "max_batch_size must be larger, because batches above it use up all of "
            f"delta = {delta!r}, got {cap!r}. Raise max_batch_size.",
            field="max_batch_size",
        )
    # TΨ (1 + e^ε) rises with ε, so its value at the upper bound is the largest.
    low = epsilon(upper, -1).lower
    assert low is not None
    return interval(low, upper)
