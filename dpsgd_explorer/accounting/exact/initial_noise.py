"""Where the exact accountant's searches for noise and for steps begin.

``SaddlePoints`` gives about ε of a run in a tenth of a millisecond: mostly within a
hundredth, where large losses are rare half as much again.  There the δ of the steps add
up, as if one loss alone decided, within a thousandth where q √T is small.  In between
the logarithms of both guesses are mixed.  Only guesses: a search ends on values of its
own accountant.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpsgd_explorer.accounting.core.initial_guesses import noise_guess, steps_guess
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.root_finding import least_noise
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.exact.accountant import DIRECTIONS
from dpsgd_explorer.accounting.exact.phases import LEAST_NOISE, LEAST_RATE
from dpsgd_explorer.accounting.exact.saddle_points import SaddlePoints
from dpsgd_explorer.accounting.exact.single_step import (
    single_step_delta,
    single_step_epsilon,
)
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss

PRECISION = 1e-3  # relative, of a guess
TURN = 1.1  # ratio of the noise multipliers between which the slope is taken
STEEPEST = 20.0
CROWDED = 0.1  # q √T at which both guesses are as good, for a small ε
LARGE_SQUARE = 20.0  # of an ε, at which they are at half of it
SHARPNESS = 4
STEPS_TRIED = 65
NEGLIGIBLE = 0.05  # share of a guess that is not made


def noise_start(
    target: float, rate: float, steps: int, delta: float, relation: NeighboringRelation
) -> tuple[float, float]:
    """Return about what noise keeps the target, and -d log ε / d log σ there."""
    start = noise_guess(target, rate, steps, delta)
    if steps < 2 or not LEAST_RATE <= rate < 1 - LEAST_RATE:
        return start, 1.0
    direction = DIRECTIONS[relation][0]
    counts = np.array([[float(steps)]])

    def by_tilts(noise: float) -> float:
        saddles = SaddlePoints([SubsampledGaussianLoss(rate, noise, direction)])
        return float(saddles.at_delta(counts, math.log(delta))[1][0])

    def by_sum(noise: float) -> float:
        return single_step_epsilon(rate, noise, delta / steps, relation)

    share = _crowd(target, rate, steps)
    ways = ((by_sum, 1 - share), (by_tilts, share))
    used = [(spent, weight) for spent, weight in ways if weight > NEGLIGIBLE]
    guesses = [_guess(spent, target, start) for spent, _ in used]
    if not all(LEAST_NOISE < noise < MAX_NOISE_MULTIPLIER for noise, _ in guesses):
        return start, 1.0
    logs, slopes = np.average(
        [(math.log(noise), slope) for noise, slope in guesses],
        axis=0,
        weights=[weight for _, weight in used],
    )
    return math.exp(logs), float(slopes)


def steps_start(
    target: float,
    rate: float,
    noise: float,
    delta: float,
    relation: NeighboringRelation,
) -> float:
    """Return about how many steps keep the target."""
    gaussian = steps_guess(target, rate, noise, delta)
    if not LEAST_RATE <= rate < 1 - LEAST_RATE or noise < LEAST_NOISE:
        return gaussian
    each = single_step_delta(rate, noise, target, relation)
    added = delta / each if each else math.inf
    if not 2 <= added <= MAX_STEPS:
        return min(added, gaussian)
    if _crowd(target, rate, added) < 0.5:
        return added
    counts = np.geomspace(1, MAX_STEPS, STEPS_TRIED)
    saddles = SaddlePoints(
        [SubsampledGaussianLoss(rate, noise, DIRECTIONS[relation][0])]
    )
    spent = saddles.at_delta(counts[:, None], math.log(delta))[1]
    return float(
        np.exp(np.interp(target, np.maximum.accumulate(spent), np.log(counts)))
    )


def _crowd(target: float, rate: float, steps: float) -> float:
    """Return how much of the guess is that of ``SaddlePoints``, from 0 to 1."""
    crowd = rate * math.sqrt(steps) * (1 + target * target / LARGE_SQUARE) / CROWDED
    return 1 / (1 + crowd**-SHARPNESS)


def _guess(
    spent: Callable[[float], float], target: float, start: float
) -> tuple[float, float]:
    """Return the noise with which about the target is spent, and the slope there."""

    def log_excess(noise: float) -> float:
        value = spent(min(max(noise, LEAST_NOISE), MAX_NOISE_MULTIPLIER))
        return math.log(value / target) if value > 0 else -math.inf

    found = least_noise(lambda x: math.tanh(log_excess(x)), start, PRECISION)
    if not LEAST_NOISE < found < MAX_NOISE_MULTIPLIER:
        return found, 1.0
    rise = log_excess(found / TURN) - log_excess(found)
    slope = rise / math.log(TURN)
    return found, min(max(slope, 1.0), STEEPEST) if math.isfinite(slope) else 1.0
