"""Poisson batches that are cut: the noise for a target, and the attacker's curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.initial_guesses import noise_guess
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.root_finding import least_noise, unreachable
from dpsgd_explorer.accounting.core.trade_off import largest_rates
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from dpsgd_explorer.accounting.exact.phases import LEAST_NOISE
from dpsgd_explorer.accounting.exact.truncated_poisson import TruncatedStep
from dpsgd_explorer.accounting.trade_off import checked_rates, trade_off_intervals
from dpsgd_explorer.accounting.truncated_poisson import (
    truncated_upper,
)
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
    """Return about the least noise with which steps on cut batches keep to a target.

    Args:
        target_epsilon: Greater than 0.
        sample_rate: Poisson inclusion probability q a step, in (0, 1].
        steps: At least 1.
        delta: In (0, 1).
        sample_size: Records N of the larger of two neighbouring data sets.
        max_batch_size: Records B that a batch may hold.
        neighboring_relation: What one record may change.

    Returns:
        A noise multiplier whose ε, from above, is at most the target; within
        some 1e-5 of the least such, where its sides are not far apart.

    Raises:
        AccountingError: an argument is outside its domain, or no noise reaches the
            target.
    """
    target = domains.target_epsilon(target_epsilon)
    count, slack = domains.steps(steps, least=1), domains.delta(delta)

    data = (sample_size, max_batch_size, neighboring_relation)

    def spent(noise: float) -> float:
        run = Phase(sample_rate, noise, count)
        found = truncated_upper(run, slack, *data, refinements=1)
        return found.value if isinstance(found, Interval) else found

    least = spent(MAX_NOISE_MULTIPLIER)
    if least > target:
        raise unreachable(target_epsilon, least)

    def excess(noise: float) -> float:
        try:
            loss = spent(noise)
        except AccountingError:  # the cap is exceeded too often for so little noise
            return 1.0
        return 1.0 if math.isinf(loss) else (loss - target) / max(loss, target)

    floor = 2 * LEAST_NOISE  # below it another bound serves, which jumps
    if excess(floor) <= 0 < excess(math.nextafter(floor, 0.0)):
        return floor
    start = noise_guess(target, domains.sample_rate(sample_rate), count, slack)
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
    """Return the largest true positive rates against steps on cut batches.

    From below, by a test on the data of ``TruncatedStep.least_rate``, and from above.

    Args: as ``trade_off``, and ``truncated_poisson_epsilon``.

    Raises:
        AccountingError: an argument is outside its domain; or the noise multiplier is
            below 0.2, and so small a cap is exceeded too often.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    alarms = checked_rates(false_positive_rates)
    size, cap = sample_size, max_batch_size

    def spent(slack: float) -> float:
        terms = (slack, size, cap, neighboring_relation, REFINEMENTS)
        found = truncated_upper(run, *terms)
        return found.value if isinstance(found, Interval) else found

    high = largest_rates(alarms, spent)
    rate = run.sample_rate
    if cap < size and run.noise_multiplier:
        rate = TruncatedStep(rate, run.noise_multiplier, size, cap).least_rate
    least = alarms.tolist()
    if rate:
        uncut = Phase(rate, run.noise_multiplier, run.steps)
        found = trade_off_intervals([uncut], least, "exact", neighboring_relation)
        least = [x.lower for x in found if x.lower is not None]
    low = np.minimum(least, high)
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    return [Interval(upper, lower, upper, "bound") for lower, upper in pairs]
