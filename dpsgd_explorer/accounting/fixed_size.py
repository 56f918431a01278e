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
from dpsgd_explorer.accounting.core.gaussian import deltas_of_mu
from dpsgd_explorer.accounting.core.intervals import Floats, Interval, interval
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.composition import Composition
from dpsgd_explorer.accounting.exact.fixed_size import FixedSizeLoss
from dpsgd_explorer.accounting.exact.phases import MIN_NOISE, MIN_RATE
from dpsgd_explorer.accounting.rdp.fixed_size import fixed_size_rdp_epsilon

#: Steps up to which losses are composed: with more, a grid that is large enough takes
#: too long.
MAX_COMPOSED_STEPS = 50_000
#: Smallest δ for which a curve is narrow.
LEAST_DELTA = 1e-12


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
    [attained] = ExactAccountant().bounds([opposite(run)], [run.steps], target)
    if run.steps <= 1 or run.sample_rate == 1 or run.noise_multiplier == 0:
        return attained  # in these cases the data also reach the upper bound
    terms = (run.sample_rate, run.noise_multiplier, run.steps, target)
    upper = min(fixed_size_rdp_epsilon(*terms), _composed_epsilon(run, target))
    return interval(min(attained.lower or 0.0, upper), upper)


def fixed_size_deltas(run: Phase, epsilons: Floats) -> Floats | None:
    """Returns upper bounds on δ at each ε >= 0 for a replaced record; [E] -> [E].

    Args:
        run: Sample rate, noise and steps; read as batches of fixed size.
        epsilons: ε at which δ is bounded.

    Returns:
        None outside the range of grids: for more than 50,000 steps, tiny sample rates
        or little noise.
    """
    if run.steps and run.sample_rate == 1 and run.noise_multiplier:
        mu = math.sqrt(run.steps) / (run.noise_multiplier / 2)
        return np.asarray(deltas_of_mu(epsilons, mu) * (1 + TOLERANCES.closed_form))
    composition = _composition(run)
    if composition is None or not run.steps:
        return None if run.steps else np.zeros_like(epsilons)
    if run.steps == 1:
        single = composition.losses[0].deltas(epsilons)
        return np.minimum(single * (1 + TOLERANCES.closed_form), 1.0)
    counts = np.array([float(run.steps)])
    [attained] = ExactAccountant().bounds([opposite(run)], [run.steps], LEAST_DELTA)
    least = attained.lower or 0.0
    return composition.upper_deltas(counts, epsilons, LEAST_DELTA, least)


def opposite(run: Phase) -> Phase:
    """Returns the Poisson steps whose removed record costs what some data reach.

    In these data all other gradients are opposite to the record's gradient.
    """
    return Phase(run.sample_rate, run.noise_multiplier / 2, run.steps)


def _composition(run: Phase) -> Composition | None:
    """Returns the composition of the largest losses, None outside the range."""
    is_sampled = MIN_RATE <= run.sample_rate < 1 - MIN_RATE
    has_noise = run.noise_multiplier >= 2 * MIN_NOISE
    if not (is_sampled and has_noise and run.steps <= MAX_COMPOSED_STEPS):
        return None
    return Composition([FixedSizeLoss(run.sample_rate, run.noise_multiplier)])


def _composed_epsilon(run: Phase, delta: float) -> float:
    """Returns the composition's upper bound, infinite outside the range of grids."""
    composition = _composition(run)
    if composition is None:
        return math.inf
    [loss] = composition.losses
    variation = run.steps * float(loss.deltas(np.zeros(1))[0])
    if variation * (1 + TOLERANCES.closed_form) <= delta:
        return 0.0
    counts = np.array([[float(run.steps)]])
    return float(composition.epsilons(counts, delta)[1][0])
