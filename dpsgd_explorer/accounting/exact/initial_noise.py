"""Where the exact accountant's search for the least noise begins.

``Tilts`` tells about what a run spends in a tenth of a millisecond: mostly within a
hundredth, where large losses are rare within a half.  Only guesses: a search ends on
values of its own accountant.
"""

from __future__ import annotations

import math

import numpy as np

from dpsgd_explorer.accounting.core.initial_guesses import noise_guess
from dpsgd_explorer.accounting.core.root_finding import least_noise
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from dpsgd_explorer.accounting.exact.accountant import (
    DIRECTIONS,
    LEAST_NOISE,
    LEAST_RATE,
)
from dpsgd_explorer.accounting.exact.saddle_points import Tilts
from dpsgd_explorer.accounting.exact.subsampled_gaussian import Sampled

PRECISION = 0.01  # relative, of a guess
TURN = 1.1  # ratio of the noise multipliers between which the slope is taken
STEEPEST = 8.0


def noise_start(
    target: float, rate: float, steps: int, delta: float, relation: str
) -> tuple[float, float]:
    """Return about what noise keeps the target, and -d log ε / d log σ there."""
    start = noise_guess(target, rate, steps, delta)
    if steps < 2 or not LEAST_RATE <= rate < 1 - LEAST_RATE:
        return start, 1.0
    direction = DIRECTIONS[relation][0]
    counts = np.array([[float(steps)]])

    def log_excess(noise: float) -> float:
        within = min(max(noise, LEAST_NOISE), MAX_NOISE_MULTIPLIER)
        tilts = Tilts([Sampled(rate, within, direction)])
        spent = float(tilts.saddles(counts, math.log(delta))[1][0])
        return math.log(spent / target) if spent > 0 else -math.inf

    def excess(noise: float) -> float:
        return math.tanh(log_excess(noise))

    found = least_noise(excess, start, PRECISION)
    if not LEAST_NOISE < found < MAX_NOISE_MULTIPLIER:
        return start, 1.0
    rise = log_excess(found / TURN) - log_excess(found)
    slope = rise / math.log(TURN)
    return found, min(max(slope, 1.0), STEEPEST) if math.isfinite(slope) else 1.0
