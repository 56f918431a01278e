"""The privacy loss of a step on a batch of fixed size, one record replaced.

The loss here has the largest privacy curve that a step can have in either direction
(``rdp.fixed_size``).  Let y(v) be the loss of the pair P = (1 - q) N(0, 1) + q N(μ, 1)
and Q = N(0, 1).  The loss takes the values y > 0 with their probability under P, the
values -y with the probability of y under Q, and 0 otherwise.  It is its own mirror
image.

The distribution has a jump at 0, so its transform does not decay: it can be composed
only on a grid of losses.

Notation: J tilts, M nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core.intervals import Floats
from dpsgd_explorer.accounting.core.log_space import log_mixture
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.privacy_loss import (
    ContourGrid,
    PrivacyLoss,
    Transform,
)
from dpsgd_explorer.accounting.exact.single_step import STEP_CURVES, single_step_epsilon
from dpsgd_explorer.accounting.rdp.fixed_size import gauss_nodes

#: Largest distance of the mode from 0, in standard deviations; it limits the tilt.
MAX_CENTER = 300.0
#: Log of the largest term up to which E[e^(cℓ)] is summed as 1 + (E[e^(cℓ)] - 1).
MAX_LOG_SCALE = 30.0
#: Standard deviations beyond the mode that are summed: less than 1e-16 is outside.
REACH = 9.0


@dataclass(frozen=True)
class FixedSizeLoss(PrivacyLoss):
    """The largest loss of a step on a batch of fixed size.

    Attributes:
        sample_rate: Batch size over the number of records q, in (0, 1).
        noise_multiplier: Noise std over the clipping bound, greater than 0.
    """

    sample_rate: float
    noise_multiplier: float

    @property
    def largest_tilt(self) -> float:  # type: ignore[override]  # as an attribute
        """The tilt at which the mode is MAX_CENTER from 0."""
        return max(MAX_CENTER * self._noise - 1, 1.0)

    @property
    def _noise(self) -> float:
        """Noise std over the distance of the two sums, two clipping bounds."""
        return self.noise_multiplier / 2

    def cumulants(self, tilts: Floats) -> Floats:
        """Returns K, K' and K'' by Gauss' rule; K is rounded away from 0."""
        noise = self._noise
        end = (float(tilts.max()) + 1) / noise + REACH
        v, log_weights = gauss_nodes(0.5 / noise, end, noise)
        y = log_mixture(v, self.sample_rate, noise)[0]  # [M], above 0
        normal = log_weights - 0.5 * v * v - 0.5 * np.log(2 * np.pi)
        up, down = normal + y, normal  # log probabilities of the losses y and -y
        rise = np.outer(tilts, y)  # [J, M]
        top = np.maximum((up + rise).max(axis=1), 0.0)[:, None]
        high, low = np.exp(up + rise - top), np.exp(down - rise - top)
        # E[e^(cℓ)] - 1 as a sum of positive terms and of small negative ones
        gains = -np.exp(up + rise - top) * np.expm1(-rise)
        losses = np.exp(down - top) * np.expm1(-rise)
        scale = top[:, 0]
        excess = (gains + losses).sum(axis=1)
        total = np.where(
            scale < MAX_LOG_SCALE,
            np.log1p(np.exp(np.minimum(scale, MAX_LOG_SCALE)) * excess),
            scale + np.log(np.exp(-scale) + np.maximum(excess, 0.0)),
        )
        inverse = np.exp(scale - total)
        mean = inverse * ((high - low) @ y)
        variance = inverse * ((high + low) @ (y * y)) - mean * mean
        total += TOLERANCES.rdp_integral * np.abs(total)
        return np.array([total, mean, np.maximum(variance, 0.0)])

    def transform(self, grid: ContourGrid) -> Transform | None:
        """Returns None: the transform does not decay."""
        return None

    def deltas(self, epsilons: Floats) -> Floats:
        """Returns δ; δ(-ε) = 1 - e^-ε + e^-ε δ(ε)."""
        curve = STEP_CURVES["remove"](self.sample_rate, self._noise, np.abs(epsilons))
        fall = np.minimum(epsilons, 0.0)
        return np.asarray(np.exp(fall) * curve - np.expm1(fall))

    def loss_range(self, tail: float) -> tuple[float, float]:
        q, noise = self.sample_rate, self._noise
        high = single_step_epsilon(q, noise, tail, ADD_OR_REMOVE_ONE)
        return -high, high

    def log_decay_bound(self, tilt: float) -> Callable[[float], float]:
        """Returns the bound 0: the transform does not decay."""
        return lambda frequency: 0.0
