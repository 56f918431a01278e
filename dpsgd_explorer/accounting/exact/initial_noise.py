"""Initial guesses of the noise, or of the steps, that meet a target ε.

Two estimates of ε of a run are mixed:

- from the saddle point (``SaddlePoints``), in a tenth of a millisecond: within a few
  percent where q √T is large, and far off where it is small;
- from single steps whose δ add up, as if one large loss alone decided: within 0.1%
  where q √T is small.

They are only guesses: a search ends on values of its accountant.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpsgd_explorer.accounting.core.initial_guesses import noise_guess, steps_guess
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.root_finding import least_noise
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.exact.phases import MIN_NOISE, MIN_RATE
from dpsgd_explorer.accounting.exact.saddle_points import SaddlePoints
from dpsgd_explorer.accounting.exact.single_step import (
    single_step_delta,
    single_step_epsilon,
)
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss

#: Tolerance of the logarithm of a guess.
GUESS_TOLERANCE = 1e-3
#: Ratio of the noise multipliers between which the slope -d log ε / d log σ is
#: computed.
SLOPE_RATIO = 1.1
#: Largest such slope; the smallest is 1.
MAX_SLOPE = 20.0
#: q √T at which both estimates have the weight 1/2, for a small ε.
EQUAL_WEIGHT_CROWDING = 0.1
#: ε² at which half of this q √T gives the weight 1/2.
HALVING_SQUARE = 20.0
#: Exponent of q √T in the weight: the larger, the sharper the transition.
CROWDING_EXPONENT = 4
#: Numbers of steps, geometrically spaced, at which ε is estimated.
STEPS_POINTS = 65
#: Estimates with at most this weight are left out.
MIN_WEIGHT = 0.05


def noise_start(
    target: float, rate: float, steps: int, delta: float, relation: NeighboringRelation
) -> tuple[float, float]:
    """Returns about the noise multiplier that meets the target, and -d log ε / d log σ.

    Args:
        target: ε of all steps, greater than 0.
        rate: Sample rate, in (0, 1].
        steps: At least 1.
        delta: In (0, 1).
        relation: The difference between neighbouring data sets.
    """
    start = noise_guess(target, rate, steps, delta)
    if steps < 2 or not MIN_RATE <= rate < 1 - MIN_RATE:
        return start, 1.0
    direction = DIRECTIONS[relation][0]
    counts = np.array([[float(steps)]])

    def by_saddle_point(noise: float) -> float:
        saddles = SaddlePoints([SubsampledGaussianLoss(rate, noise, direction)])
        return float(saddles.at_delta(counts, math.log(delta))[1][0])

    def by_single_steps(noise: float) -> float:
        return single_step_epsilon(rate, noise, delta / steps, relation)

    weight = _saddle_point_weight(target, rate, steps)
    estimates = ((by_single_steps, 1 - weight), (by_saddle_point, weight))
    used = [(epsilon, share) for epsilon, share in estimates if share > MIN_WEIGHT]
    guesses = [_noise_and_slope(epsilon, target, start) for epsilon, _ in used]
    if not all(MIN_NOISE < noise < MAX_NOISE_MULTIPLIER for noise, _ in guesses):
        return start, 1.0
    log_noise, slope = np.average(
        [(math.log(noise), slope) for noise, slope in guesses],
        axis=0,
        weights=[share for _, share in used],
    )
    return math.exp(log_noise), float(slope)


def steps_start(
    target: float,
    rate: float,
    noise: float,
    delta: float,
    relation: NeighboringRelation,
) -> float:
    """Returns about the number of steps that meets the target.

    Args: as for ``noise_start``, with the noise multiplier in place of the steps.
    """
    gaussian = steps_guess(target, rate, noise, delta)
    if not MIN_RATE <= rate < 1 - MIN_RATE or noise < MIN_NOISE:
        return gaussian
    single = single_step_delta(rate, noise, target, relation)
    added = delta / single if single else math.inf
    if not 2 <= added <= MAX_STEPS:
        return min(added, gaussian)
    if _saddle_point_weight(target, rate, added) < 0.5:
        return added
    counts = np.geomspace(1, MAX_STEPS, STEPS_POINTS)
    loss = SubsampledGaussianLoss(rate, noise, DIRECTIONS[relation][0])
    epsilons = SaddlePoints([loss]).at_delta(counts[:, None], math.log(delta))[1]
    rising = np.maximum.accumulate(epsilons)
    return float(np.exp(np.interp(target, rising, np.log(counts))))


def _saddle_point_weight(target: float, rate: float, steps: float) -> float:
    """Returns the weight of the saddle point's estimate, from 0 to 1."""
    crowding = rate * math.sqrt(steps) * (1 + target * target / HALVING_SQUARE)
    return 1 / (1 + (crowding / EQUAL_WEIGHT_CROWDING) ** -CROWDING_EXPONENT)


def _noise_and_slope(
    epsilon: Callable[[float], float], target: float, start: float
) -> tuple[float, float]:
    """Returns the noise multiplier at which an estimate meets the target; its slope.

    Args:
        epsilon: Function from the noise multiplier to the estimate of ε.
        target: Target ε.
        start: Noise multiplier with which the search starts.
    """

    def log_excess(noise: float) -> float:
        value = epsilon(min(max(noise, MIN_NOISE), MAX_NOISE_MULTIPLIER))
        return math.log(value / target) if value > 0 else -math.inf

    root = least_noise(lambda x: math.tanh(log_excess(x)), start, GUESS_TOLERANCE)
    if not MIN_NOISE < root < MAX_NOISE_MULTIPLIER:
        return root, 1.0
    rise = log_excess(root / SLOPE_RATIO) - log_excess(root)
    slope = rise / math.log(SLOPE_RATIO)
    bounded = min(max(slope, 1.0), MAX_SLOPE) if math.isfinite(slope) else 1.0
    return root, bounded
