"""Bounds on ε of shuffled batches: no tight ε is known for them.

In each epoch, all records are shuffled and dealt into t batches of equal size.
Neighbouring data sets differ in one record, whose gradient counts as 0 in one of them.

- **At most**: an observer who knows the order sees one Gaussian step per epoch.
- **At least**: let all other gradients be opposite to the record's.  Then, up to a
  constant, one batch has the sum 2 with the record and 1 without it, all others 0.  The
  largest noisy sum M of an epoch has

      P(M <= m) = Φ((m - 2)/σ) Φ(m/σ)^(t-1),    Q(M <= m) = Φ((m - 1)/σ) Φ(m/σ)^(t-1).

  M in bins is a function of the output, so its privacy loss bounds the run's from
  below.  Epochs are composed with a smaller curve (``composition``).  If all other
  gradients are 0, the run is one of random allocation: a second lower bound.

Source: Chua et al. (2024), arXiv:2403.17673 (one epoch) and arXiv:2411.04205 (several);
docs/explanation/math.md, section 6.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.gaussian import epsilon_of_mu, gaussian_epsilon
from dpsgd_explorer.accounting.core.intervals import Floats, Interval
from dpsgd_explorer.accounting.core.phase import MAX_SLOTS, AllocationPhase, Phase
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.mechanisms.composition import (
    ROUND_OFF,
    TAIL_SHARE,
    repeated_smaller,
    smaller_loss,
)
from dpsgd_explorer.accounting.mechanisms.noise import SUM_ROUND_OFF
from dpsgd_explorer.accounting.mechanisms.parts import Curve

#: Bins of the largest noisy sum of an epoch.
BINS = 4000
#: Losses of the grid from 0 to the largest loss of all epochs.
GRID_POINTS = 4000
#: Losses of the grid per standard deviation of an epoch's loss, and the largest number
#: of losses of an epoch.
SPREAD_POINTS, MAX_POINTS = 8, 20_000
#: Largest loss of all epochs for which a grid is used.
MAX_LOSS = 250.0
#: Probability below the first bin.
FIRST_BIN = 1e-15


def shuffled_interval(
    *, slots: int, noise_multiplier: float, epochs: int, delta: float
) -> Interval:
    """Returns an interval that contains ε of shuffled batches of fixed size.

    One epoch of 234 batches.  ε is 0.31 with Poisson sampling, 0.27 with random
    allocation, which uses each record once per epoch too:

    >>> spent = shuffled_interval(
    ...     slots=234, noise_multiplier=1.1, epochs=1, delta=1e-5
    ... )
    >>> round(spent.lower, 2), round(spent.upper, 2)
    (2.98, 3.92)

    Args:
        slots: Batches of an epoch t.
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        epochs: Number of complete epochs, each with a new order; 0 gives 0.
        delta: In (0, 1).

    Returns:
        The upper bound holds for all data sets in which the gradient of one record
        may count as 0; some data sets exceed the lower bound.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: the lower bound: Chua et al. (2024), arXiv:2411.04205; the upper bound: one
    Gaussian step per epoch.
    """
    count = validation.whole("slots", slots, 1, MAX_SLOTS)
    noise = validation.noise_multiplier(noise_multiplier)
    times = validation.whole("epochs", epochs, 0, validation.MAX_STEPS)
    target = validation.delta(delta)
    upper = gaussian_epsilon(delta=target, noise_multiplier=noise, steps=times)
    if not times or not noise:
        return Interval(upper, upper, upper, "exact")
    lower = _least_epsilon(count, noise, times, target)
    exact, steps = ExactAccountant(), [count * times]
    poisson = Phase(1 / count, noise, steps[0])  # about the ε of random allocation
    if lower < exact.epsilons([poisson], steps, target)[0]:
        allocated = AllocationPhase(slots=count, noise_multiplier=noise, steps=steps[0])
        [other] = exact.bounds([allocated], steps, target)
        lower = max(lower, other.lower or 0.0)
    return Interval(upper, min(lower, upper), upper, "bound")


def _least_epsilon(slots: int, noise: float, epochs: int, delta: float) -> float:
    """Returns a lower bound on ε, 0 where no grid is fine enough."""
    tail = TAIL_SHARE * delta / epochs
    p, q = _bins(slots, noise, tail)
    finite = (p > 0) & (q > 0)
    p, q = p[finite], q[finite]  # without the other bins, no curve is larger
    losses = np.log(p / q)
    top = float(np.abs(losses).max())
    # One Gaussian step per epoch has a larger loss than the sum of all epochs.
    total = min(
        epochs * top, epsilon_of_mu(TAIL_SHARE * delta, math.sqrt(epochs) / noise)
    )
    spread = math.sqrt(float(p @ losses**2))
    width = min(total / GRID_POINTS, max(spread / SPREAD_POINTS, top / MAX_POINTS))
    if not 0 < top <= MAX_LOSS or total > MAX_LOSS:
        return 0.0
    grid: Floats = np.asarray(width * np.arange(math.ceil(top / width) + 2))
    remove, add = _curve(p, q, grid), _curve(q, p, grid)
    found = []
    for curves in ((remove, add), (add, remove)):
        step = smaller_loss(width, *curves)
        run = repeated_smaller(step, epochs, tail)
        found.append(run.epsilon(delta * (1 + ROUND_OFF)) * (1 - ROUND_OFF))
    return max(found)


def _curve(p: Floats, q: Floats, losses: Floats) -> Curve:
    """Returns bounds on Σ (p - e^ε q)₊ at each ε; [B], [B], [K] -> [K], [K]."""
    order = np.argsort(p / q)
    p_tails, q_tails = (np.append(np.cumsum(x[order][::-1])[::-1], 0.0) for x in (p, q))
    index = np.searchsorted(np.log(p / q)[order], losses)
    values = p_tails[index] - np.exp(losses) * q_tails[index]
    error = SUM_ROUND_OFF * p_tails[index]
    return np.maximum(values - error, 0.0), np.maximum(values, 0.0) + error


def _bins(slots: int, noise: float, tail: float) -> tuple[Floats, Floats]:
    """Returns the probabilities of the bins of M under P and Q; [B], [B]."""
    low = float(scipy.special.ndtri(FIRST_BIN ** (1 / slots)))
    high = 2 / noise - float(scipy.special.ndtri(min(tail, 0.5)))
    ends = np.linspace(min(low, high - 1), high, BINS - 1)  # M over σ
    masses = []
    for shift in (2 / noise, 1 / noise):
        logs = (slots - 1) * scipy.special.log_ndtr(ends)
        logs = logs + scipy.special.log_ndtr(ends - shift)
        below = np.concatenate([[0.0], np.exp(logs), [1.0]])
        above = np.concatenate([[1.0], -np.expm1(logs), [0.0]])
        near = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
        masses.append(np.maximum(near, 0.0))
    return masses[0], masses[1]
