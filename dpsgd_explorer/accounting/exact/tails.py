"""What a discrete loss says about a composition's δ, on one side of the true one.

Notation: N points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats

LARGEST_LOG = 340.0  # whose exponential, and its inverse, have floats as squares


@dataclass(frozen=True)
class Tails:
    """A composition's δ, on one side of the true one.

    With factor e^log_scale and heights over the bottom, δ(ε) for ε at or below the
    k-th one, and above the one before, is kept_k - e^(ε - bottom) lost_k, and off by no
    more than doubt_k.

    Attributes:
        side: 1 from above, -1 from below.
        bottom: Loss of height 0.
        heights: [N].
        kept: Weighted probabilities of larger losses, [N].
        lost: The same, each over e^height, [N].
        doubt: What was folded over, and round-off; [N], falling.
        log_scale: See above.
        infinite: Probability of an infinite loss, to be added.
    """

    side: int
    bottom: float
    heights: Floats
    kept: Floats
    lost: Floats
    doubt: Floats
    log_scale: float
    infinite: float

    def epsilon(self, delta: float) -> float:
        """Return ε >= 0 at delta; 0 or infinity if there is none."""
        nothing = math.inf if self.side > 0 else 0.0
        left = delta - self.infinite
        if left <= 0 or abs(math.log(left) - self.log_scale) > LARGEST_LOG:
            return nothing
        target = math.exp(math.log(left) - self.log_scale)
        doubt = self.side * self.doubt
        deltas = self.kept - self.lost * np.exp(self.heights) + doubt
        over = np.flatnonzero(deltas > target)
        if not len(over):
            return max(self.bottom, 0.0) if self.side > 0 else 0.0
        last = int(over[-1])
        if last + 1 == len(self.kept):
            return nothing
        return max(self.bottom + self._height(last, target - doubt[last]), 0.0)

    def _height(self, last: int, target: float) -> float:
        """Return where in a cell the curve, which is a line in x, has this value."""
        low, high = self.heights[last : last + 2]
        gain, lost = self.kept[last + 1] - target, self.lost[last + 1]
        if lost <= 0:  # nothing but doubt
            return float(high if self.side > 0 else low)
        height = math.log(gain) - math.log(lost) if gain > 0 else -math.inf
        return float(np.clip(height, low, high))

    def log_delta(self, epsilon: float) -> float:
        """Return log δ at epsilon; what is certain, 0 or -infinity, outside."""
        height = epsilon - self.bottom
        at = int(np.searchsorted(self.heights, height))
        if height < 0 or at == len(self.heights):
            return 0.0 if self.side > 0 else -math.inf
        left = self.kept[at] - self.lost[at] * math.exp(height)
        left += self.side * self.doubt[max(at - 1, 0)]
        if self.side > 0:
            left = max(left, math.exp(-LARGEST_LOG))  # beyond, weights are 0
        scaled = math.log(left) + self.log_scale if left > 0 else -math.inf
        if not self.infinite:
            return min(scaled, 0.0)
        return min(float(np.logaddexp(scaled, math.log(self.infinite))), 0.0)
