"""ε of batches of fixed size: m of N records, drawn without replacement for each step.

Neighbours differ by one replaced record.  Upper bound: the largest loss that a step can
have (``exact.fixed_size``), composed on a lattice, or Rényi's where that is smaller or
the integrals cannot be trusted.  Lower bound: where all other gradients are opposite to
the record's, the steps are a subsampled Gaussian with q = m/N and half the noise
multiplier, in one direction.
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
from dpsgd_explorer.accounting.exact.phases import LEAST_NOISE, LEAST_RATE
from dpsgd_explorer.accounting.rdp.fixed_size import fixed_size_rdp_epsilon

MAX_LATTICE_STEPS = 50_000  # beyond, a lattice of fitting size takes too long


def fixed_size_epsilon(
    *, sample_rate: float, noise_multiplier: float, steps: int, delta: float
) -> float:
    """Return a bound on ε of steps on batches of fixed size, for a replaced record.

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
    """Return the interval of ε on batches of fixed size, for a replaced record.

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
        The upper bound holds for all data; some data reach the lower one.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Balle, Barthe and Gaboardi (2018), arXiv:1807.01647v2, Theorem 9.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    target = validation.delta(delta)
    reached = Phase(run.sample_rate, run.noise_multiplier / 2, run.steps)
    [least] = ExactAccountant().bounds([reached], [run.steps], target)
    if run.steps <= 1 or run.sample_rate == 1 or run.noise_multiplier == 0:
        return least  # the largest curve is that of these data
    terms = (run.sample_rate, run.noise_multiplier, run.steps, target)
    upper = min(fixed_size_rdp_epsilon(*terms), _lattice_epsilon(run, target))
    return interval(min(least.lower or 0.0, upper), upper)


def _lattice_epsilon(run: Phase, delta: float) -> float:
    """Return the composition's upper bound, infinite where no lattice serves."""
    within = LEAST_RATE <= run.sample_rate < 1 - LEAST_RATE
    enough = run.noise_multiplier >= 2 * LEAST_NOISE
    if not (within and enough and run.steps <= MAX_LATTICE_STEPS):
        return math.inf
    loss = FixedSizeLoss(run.sample_rate, run.noise_multiplier)
    variation = run.steps * float(loss.deltas(np.zeros(1))[0])
    if variation * (1 + TOLERANCES.closed_form) <= delta:
        return 0.0
    counts = np.array([[float(run.steps)]])
    return float(Composition([loss]).epsilons(counts, delta)[1][0])
