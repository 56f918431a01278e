"""ε of batches of fixed size: m of N records, drawn without replacement for each step.

Neighbouring data sets differ by one replaced record.

- Upper bound: the largest privacy loss that a step can have (``exact.fixed_size``),
  composed on a grid of losses.  Rényi's bound is used where it is smaller, or where the
  integrals cannot be trusted.
- Lower bound: if all other gradients are opposite to the record's gradient, a step is,
  in one direction, a subsampled Gaussian with q = m/N and half the noise multiplier.
"""

from __future__ import annotations

import math

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.intervals import Interval, interval
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.composition import Composition
from dpsgd_explorer.accounting.exact.fixed_size import FixedSizeLoss
from dpsgd_explorer.accounting.exact.phases import MIN_NOISE, MIN_RATE
from dpsgd_explorer.accounting.rdp.fixed_size import fixed_size_rdp_epsilon

#: Steps up to which losses are composed: with more, a grid that is large enough takes
#: too long.
MAX_COMPOSED_STEPS = 50_000


def fixed_size_epsilon(
    *, sample_rate: float, noise_multiplier: float, steps: int, delta: float
) -> float:
    """Returns a bound on ε of steps on batches of fixed size, for a replaced record.

    It is the upper side of ``fixed_size_interval``:

    >>> spent = fixed_size_epsilon(
    ...     sample_rate=0.02, noise_multiplier=1.5, steps=50, delta=1e-6
    ... )
    >>> round(spent, 4)
    3.4075

    Args:
        sample_rate: Batch size over N, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: At least 0.
        delta: In (0, 1).

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``fixed_size_interval``.
    """
    return float(
        fixed_size_interval(
            sample_rate=sample_rate,
            noise_multiplier=noise_multiplier,
            steps=steps,
            delta=delta,
        )
    )


def fixed_size_interval(
    *, sample_rate: float, noise_multiplier: float, steps: int, delta: float
) -> Interval:
    """Returns the interval of ε on batches of fixed size, for a replaced record.

    Batches of 20 of 1,000; Rényi's bound alone is 4.15, and Poisson sampling spends
    0.83:

    >>> spent = fixed_size_interval(
    ...     sample_rate=0.02, noise_multiplier=1.5, steps=50, delta=1e-6
    ... )
    >>> spent.status, round(spent.lower, 2), round(float(spent), 2)
    ('bound', 3.32, 3.41)

    Args:
        sample_rate: Batch size over N, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: At least 0.
        delta: In (0, 1).

    Returns:
        The upper bound holds for all data sets; some data sets reach the lower bound.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Balle, Barthe and Gaboardi (2018), arXiv:1807.01647v2, Theorem 9.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    target = validation.delta(delta)
    opposite = Phase(run.sample_rate, run.noise_multiplier / 2, run.steps)
    [attained] = ExactAccountant().bounds([opposite], [run.steps], target)
    if run.steps <= 1 or run.sample_rate == 1 or run.noise_multiplier == 0:
        return attained  # in these cases the data also reach the upper bound
    terms = (run.sample_rate, run.noise_multiplier, run.steps, target)
    upper = min(fixed_size_rdp_epsilon(*terms), _composed_epsilon(run, target))
    return interval(min(attained.lower or 0.0, upper), upper)


def _composed_epsilon(run: Phase, delta: float) -> float:
    """Returns the composition's upper bound, infinite outside the range of grids."""
    is_sampled = MIN_RATE <= run.sample_rate < 1 - MIN_RATE
    has_noise = run.noise_multiplier >= 2 * MIN_NOISE
    if not (is_sampled and has_noise and run.steps <= MAX_COMPOSED_STEPS):
        return math.inf
    loss = FixedSizeLoss(run.sample_rate, run.noise_multiplier)
    variation = run.steps * float(loss.deltas(np.zeros(1))[0])
    if variation * (1 + TOLERANCES.closed_form) <= delta:
        return 0.0
    counts = np.array([[float(run.steps)]])
    return float(Composition([loss]).epsilons(counts, delta)[1][0])
