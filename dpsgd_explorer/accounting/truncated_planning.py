"""Truncated Poisson batches: the noise for a target, and the trade-off curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.initial_guesses import noise_guess
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.root_finding import (
    least_noise,
    relative_excess,
    unreachable,
)
from dpsgd_explorer.accounting.core.trade_off import largest_rates
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from dpsgd_explorer.accounting.exact.phases import LEAST_NOISE
from dpsgd_explorer.accounting.exact.truncated_poisson import TruncatedStep
from dpsgd_explorer.accounting.trade_off import checked_rates, trade_off_intervals
from dpsgd_explorer.accounting.truncated_poisson import truncated_bounds
from dpsgd_explorer.errors import AccountingError

REFINEMENTS = 1  # of discrete losses at each δ of a curve, which is a bound
TOLERANCE = 1e-5  # relative, of the noise: each value may take milliseconds


def truncated_poisson_noise_multiplier(
    target_epsilon: float,
    sample_rate: float,
    steps: int,
    delta: float,
    *,
    sample_size: int,
    max_batch_size: int,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> float:
    """Return about the least noise with which steps on cut batches meet a target.

    Args:
        target_epsilon: Greater than 0.
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        steps: At least 1.
        delta: In (0, 1).
        sample_size: Records N of the larger of two neighbouring data sets.
        max_batch_size: Largest number of records of a batch, B.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Returns:
        A noise multiplier whose upper bound of ε is at most the target; within some
        1e-5 of the least such, where lower and upper bound are close.

    Raises:
        AccountingError: an argument is outside its domain, or no noise reaches the
            target.
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

    floor = 2 * LEAST_NOISE  # below it another bound serves, which jumps
    if excess(floor) <= 0 < excess(math.nextafter(floor, 0.0)):
        return floor
    start = noise_guess(target, validation.sample_rate(sample_rate), steps, delta)
    return least_noise(excess, start, TOLERANCE)


def truncated_poisson_trade_off(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    *,
    false_positive_rates: Sequence[float],
    sample_size: int,
    max_batch_size: int,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> list[Interval]:
    """Return the interval of the largest true positive rate on cut batches, per rate.

    The lower bound is that of a test on the data of ``TruncatedStep.least_rate``.

    Args: as ``trade_off``, and ``truncated_poisson_epsilon``.

    Raises:
        AccountingError: an argument is outside its domain; or the noise multiplier is
            below 0.2, and so small a cap is exceeded too often.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    alarms = checked_rates(false_positive_rates)
    data = (sample_size, max_batch_size)
    terms = (*data, neighboring_relation, REFINEMENTS)
    high = largest_rates(alarms, lambda x: truncated_bounds(run, x, *terms).value)
    rate = run.sample_rate
    if max_batch_size < sample_size and run.noise_multiplier:
        rate = TruncatedStep(rate, run.noise_multiplier, *data).least_rate
    least = alarms.tolist()
    if rate:
        uncut = replace(run, sample_rate=rate)
        tests = trade_off_intervals([uncut], least, "exact", neighboring_relation)
        least = [x.lower for x in tests if x.lower is not None]
    low = np.minimum(least, high)
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    return [Interval(upper, lower, upper, "bound") for lower, upper in pairs]
