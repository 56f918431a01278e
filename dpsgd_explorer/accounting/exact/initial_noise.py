"""Initial guesses of the noise, or of the steps, that keep a target ε.

Two estimates of ε of a run are mixed:

- from the saddle point (``SaddlePoints``), in a tenth of a millisecond: mostly within a
  hundredth; half as much again where large losses are rare;
- from single steps whose δ add up, as if one large loss alone decided: within a
  thousandth where q √T is small.

They are only guesses: a search ends on values of its own accountant.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpsgd_explorer.accounting.core.initial_guesses import noise_guess, steps_guess
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.root_finding import least_noise
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.exact.phases import LEAST_NOISE, LEAST_RATE
from dpsgd_explorer.accounting.exact.saddle_points import SaddlePoints
from dpsgd_explorer.accounting.exact.single_step import (
    single_step_delta,
    single_step_epsilon,
)
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss

PRECISION = 1e-3  # of the log of a guess
SLOPE_RATIO = 1.1  # of the noise multipliers between which the slope is taken
LARGEST_SLOPE = 20.0  # -d log ε / d log σ; at least 1
EVEN_CROWDING = 0.1  # q √T at which both estimates have weight 1/2, for a small ε
LARGE_SQUARE = 20.0  # ε² at which half that q √T has
SHARPNESS = 4  # of the transition: exponent of q √T
STEPS_TRIED = 65  # geometrically spaced
NEGLIGIBLE_WEIGHT = 0.05  # of an estimate that is not made


def noise_start(
    target: float, rate: float, steps: int, delta: float, relation: NeighboringRelation
) -> tuple[float, float]:
    """Return about the noise multiplier that keeps the target, and -d log ε / d log σ.

    Args:
        target: ε of all steps, greater than 0.
        rate: Sample rate, in (0, 1].
        steps: At least 1.
        delta: In (0, 1).
        relation: What one record may change.
    """
    start = noise_guess(target, rate, steps, delta)
    if steps < 2 or not LEAST_RATE <= rate < 1 - LEAST_RATE:
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
    used = [
        (epsilon, share) for epsilon, share in estimates if share > NEGLIGIBLE_WEIGHT
    ]
    guesses = [_noise_and_slope(epsilon, target, start) for epsilon, _ in used]
    if not all(LEAST_NOISE < noise < MAX_NOISE_MULTIPLIER for noise, _ in guesses):
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
    """Return about the number of steps that keep the target; arguments as above."""
    gaussian = steps_guess(target, rate, noise, delta)
    if not LEAST_RATE <= rate < 1 - LEAST_RATE or noise < LEAST_NOISE:
        return gaussian
    single = single_step_delta(rate, noise, target, relation)
    added = delta / single if single else math.inf
    if not 2 <= added <= MAX_STEPS:
        return min(added, gaussian)
    if _saddle_point_weight(target, rate, added) < 0.5:
        return added
    counts = np.geomspace(1, MAX_STEPS, STEPS_TRIED)
    loss = SubsampledGaussianLoss(rate, noise, DIRECTIONS[relation][0])
    epsilons = SaddlePoints([loss]).at_delta(counts[:, None], math.log(delta))[1]
    rising = np.maximum.accumulate(epsilons)
    return float(np.exp(np.interp(target, rising, np.log(counts))))


def _saddle_point_weight(target: float, rate: float, steps: float) -> float:
    """Return the weight of the saddle point's estimate, from 0 to 1."""
    crowding = rate * math.sqrt(steps) * (1 + target * target / LARGE_SQUARE)
    return 1 / (1 + (crowding / EVEN_CROWDING) ** -SHARPNESS)


def _noise_and_slope(
    epsilon: Callable[[float], float], target: float, start: float
) -> tuple[float, float]:
    """Return the noise multiplier at which an estimate is the target, and its slope."""

    def log_excess(noise: float) -> float:
        value = epsilon(min(max(noise, LEAST_NOISE), MAX_NOISE_MULTIPLIER))
        return math.log(value / target) if value > 0 else -math.inf

    root = least_noise(lambda x: math.tanh(log_excess(x)), start, PRECISION)
    if not LEAST_NOISE < root < MAX_NOISE_MULTIPLIER:
        return root, 1.0
    rise = log_excess(root / SLOPE_RATIO) - log_excess(root)
    slope = rise / math.log(SLOPE_RATIO)
    bounded = min(max(slope, 1.0), LARGEST_SLOPE) if math.isfinite(slope) else 1.0
    return root, bounded
