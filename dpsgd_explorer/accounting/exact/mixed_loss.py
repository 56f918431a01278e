"""The privacy loss of a step whose output reveals which of several mechanisms ran.

The i-th mechanism runs with probability w_i, independently of the data.  Then

    δ(ε) = Σ w_i δ_i(ε),    e^K(s) = Σ w_i e^K_i(s),

in each direction and for complex s.  The tilted distribution mixes the mechanisms with
the shares w_i e^(K_i(c) - K(c)).

Notation: I mechanisms, J tilts, N frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.fourier import log1p
from dpsgd_explorer.accounting.core.tolerances import MACHINE_EPSILON, TOLERANCES
from dpsgd_explorer.accounting.exact.privacy_loss import (
    ContourGrid,
    PrivacyLoss,
    Transform,
)

#: |K_i| below which Σ w_i (e^K_i - 1) has more digits than e^K.
MAX_EXCESS_CUMULANT = 0.5
#: Largest tail of one mechanism, even if it rarely runs.
MAX_TAIL = 0.25
#: Smallest size of a transform, so that it has a logarithm.
MIN_SIZE = 1e-300


@dataclass(frozen=True)
class MixtureLoss(PrivacyLoss):
    """The loss of a step of one of several mechanisms, known from the output.

    Attributes:
        weights: Probabilities w_i of the mechanisms, each greater than 0, [I].
        parts: Losses of the mechanisms in one direction, [I].
    """

    weights: tuple[float, ...]
    parts: tuple[PrivacyLoss, ...]

    @property
    def largest_tilt(self) -> float:  # type: ignore[override]  # as an attribute
        """The smallest of the parts' largest tilts."""
        return min(part.largest_tilt for part in self.parts)

    def cumulants(self, tilts: Floats) -> Floats:
        """Returns K, K' and K''; K'' is the variance within plus between the parts."""
        of_parts = np.array([part.cumulants(tilts) for part in self.parts])  # [I, 3, J]
        total, shares = self._mixed(of_parts[:, 0])
        mean = (shares * of_parts[:, 1]).sum(axis=0)
        variance = shares * (of_parts[:, 2] + (of_parts[:, 1] - mean) ** 2)
        return np.array([total, mean, variance.sum(axis=0)])

    def _mixed(self, cumulants: Floats) -> tuple[Floats, Floats]:
        """Returns K, and each part's share of e^K; [I, J] -> [J], [I, J]."""
        logs = np.log(self.weights)[:, None] + cumulants
        top = logs.max(axis=0)
        sums = np.exp(logs - top).sum(axis=0)
        total = top + np.log(sums)
        small = np.asarray(np.abs(cumulants).max(axis=0) < MAX_EXCESS_CUMULANT)
        excess = np.array(self.weights) @ np.expm1(np.where(small, cumulants, 0.0))
        excess += math.fsum(self.weights) - 1  # weights rounded up may exceed 1
        return np.where(small, np.log1p(excess), total), np.exp(logs - top) / sums

    def transform(self, grid: ContourGrid) -> Transform | None:
        """Returns the mixture of the parts' transforms, None if one is useless.

        The ratios are summed as differences from 1, so that a sum of many parts near 1
        keeps its digits.
        """
        shared = replace(grid, max_products=grid.max_products // len(self.parts))
        transforms = [
            part for loss in self.parts if (part := loss.transform(shared)) is not None
        ]
        if len(transforms) < len(self.parts):
            return None
        log_moments = np.array([[part.log_moment] for part in transforms])
        total, columns = self._mixed(log_moments)
        shares = columns[:, 0]
        mean = float(shares @ np.array([part.mean for part in transforms]))
        scale_error = max(part.moment_error for part in transforms)
        scale_error += TOLERANCES.few_operations
        excess = np.zeros(grid.count, dtype=np.complex128)
        errors = np.zeros(grid.count)
        for share, part in zip(shares, transforms, strict=True):
            angle = grid.frequencies * (part.mean - mean)
            difference = np.expm1(part.log_ratios + 1j * angle)
            excess += share * difference
            round_off = (2 * scale_error + TOLERANCES.few_operations) * np.abs(
                difference
            )
            round_off += MACHINE_EPSILON * np.abs(angle)
            errors += share * (part.errors + round_off)
        return Transform(float(total[0]), mean, log1p(excess), errors, scale_error)

    def deltas(self, epsilons: Floats) -> Floats:
        of_parts = np.array([part.deltas(epsilons) for part in self.parts])
        return np.asarray(np.array(self.weights) @ of_parts)

    def loss_range(self, tail: float) -> tuple[float, float]:
        """Returns the union of the parts' ranges, each with an equal share of tail."""
        tails = tail / (len(self.parts) * np.array(self.weights))
        ranges = [
            part.loss_range(float(min(share, MAX_TAIL)))
            for part, share in zip(self.parts, tails, strict=True)
        ]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    def log_decay_bound(self, tilt: float) -> Callable[[float], float]:
        tilts = np.array([tilt])
        cumulants = np.array([part.cumulants(tilts)[0] for part in self.parts])
        shares = self._mixed(cumulants)[1][:, 0]
        bounds = [part.log_decay_bound(tilt) for part in self.parts]

        def bound(frequency: float) -> float:
            sizes = [math.exp(part(frequency)) for part in bounds]
            return min(math.log(max(float(shares @ sizes), MIN_SIZE)), 0.0)

        return bound


def mixed_loss(weights: Sequence[float], parts: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """Returns the loss of the mixture; of a single part, the part itself."""
    if len(parts) == 1:
        return parts[0]
    return MixtureLoss(tuple(weights), tuple(parts))
