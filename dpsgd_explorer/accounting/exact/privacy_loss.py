"""The privacy loss of one step: its cumulants, transform, privacy curve and range.

Let P and Q be the distributions of a step's output for two neighbouring data sets, and
ℓ = log P/Q the privacy loss of an output.  Composition needs only the cumulant
generating function K(s) = log E_P[e^(sℓ)] for complex s, which adds up over independent
steps.  Two methods evaluate it:

- ``cumulants``: K, K' and K'' at real s = c, the tilt.  K' and K'' are the mean and
  variance of ℓ under the tilted distribution, whose density is e^(cℓ - K(c)) P.
- ``transform``: K(c + iu) on the vertical line Re s = c, the contour, for evenly
  spaced frequencies u.

The privacy curve is δ(ε) = E_P[(1 - e^(ε - ℓ))_+], for ε of either sign.

Notation: J tilts c, N frequencies u, K values of ε.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.fourier import Complexes
from dpsgd_explorer.accounting.core.gaussian import deltas_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.tolerances import MACHINE_EPSILON

Direction = Literal["remove", "add", "replace"]


@dataclass(frozen=True)
class ContourGrid:
    """The points s = c + ihk on a contour at which a transform is needed.

    Attributes:
        tilt: c, greater than 0.
        spacing: Distance h of the frequencies.
        count: Number N of frequencies.
        tolerance: Largest error of each ratio of the transform.
        max_products: Largest product of the numbers of frequencies and nodes.
    """

    tilt: float
    spacing: float
    count: int
    tolerance: float
    max_products: int

    @property
    def frequencies(self) -> Floats:
        """U = hk for k = 0 ... N - 1, [N]."""
        return np.asarray(self.spacing * np.arange(self.count))


@dataclass(frozen=True)
class Transform:
    """The transform of one step on a contour: φ_k = E_P[e^((c + ihk)ℓ)] / E_P[e^(cℓ)].

    The tilted mean is split off, φ_k = e^(ihk mean) r_k: the angles of r_k stay small,
    so that its logarithm keeps its digits when it is multiplied by many steps.

    Attributes:
        log_moment: K(c).
        mean: K'(c), the mean of ℓ under the tilted distribution.
        log_ratios: log r_k for k = 0 ... N - 1, [N].
        errors: Bounds on the errors of r_k, [N].
        moment_error: Bound on the error of e^K(c), relative.
    """

    log_moment: float
    mean: float
    log_ratios: Complexes
    errors: Floats
    moment_error: float


class PrivacyCurve(Protocol):
    """The privacy curve of one step in one direction, or a bound on it."""

    def deltas(self, epsilons: Floats) -> Floats:
        """Returns δ of the step at each ε of either sign; [K] -> [K]."""
        ...

    def loss_range(self, tail: float) -> tuple[float, float]:
        """Returns losses (low, high) with P(ℓ < low) <= tail and δ(high) <= tail."""
        ...


class PrivacyLoss(ABC):
    """The privacy loss of one step in one direction.

    Attributes:
        largest_tilt: Tilt above which the cumulants take too long.
    """

    largest_tilt: float = math.inf

    @abstractmethod
    def cumulants(self, tilts: Floats) -> Floats:
        """Returns K, K' and K'' at each tilt; [J] -> [3, J]."""

    @abstractmethod
    def transform(self, grid: ContourGrid) -> Transform | None:
        """Returns the transform on a contour, None if it would be useless."""

    @abstractmethod
    def deltas(self, epsilons: Floats) -> Floats:
        """Returns δ of the step at each ε of either sign; [K] -> [K]."""

    @abstractmethod
    def loss_range(self, tail: float) -> tuple[float, float]:
        """Returns losses (low, high) with P(ℓ < low) <= tail and δ(high) <= tail."""

    @abstractmethod
    def log_decay_bound(self, tilt: float) -> Callable[[float], float]:
        """Returns a bound on log |φ(u)| for all u at or above its argument.

        Here φ(u) = E_P[e^((c + iu)ℓ)] / E_P[e^(cℓ)], c the tilt.
        """


@dataclass(frozen=True)
class GaussianLoss(PrivacyLoss):
    """The loss of N(μ, 1) against N(0, 1): K(s) = μ² s (s + 1) / 2.

    One step on all records has μ = sensitivity / (noise std); T steps have √T times
    this μ.

    >>> GaussianLoss(mu=0.5).cumulants(np.array([2.0])).ravel().tolist()
    [0.75, 0.625, 0.25]
    """

    mu: float

    def cumulants(self, tilts: Floats) -> Floats:
        square = self.mu**2
        slopes = square * (tilts + 0.5)
        return np.array(
            [square * tilts * (tilts + 1) / 2, slopes, np.full_like(tilts, square)]
        )

    def transform(self, grid: ContourGrid) -> Transform:
        tilt, u = grid.tilt, grid.frequencies
        square = self.mu**2
        return Transform(
            square * tilt * (tilt + 1) / 2,
            square * (tilt + 0.5),
            (-square * u * u / 2).astype(np.complex128),
            np.zeros(grid.count),
            MACHINE_EPSILON * square * tilt * (tilt + 1),
        )

    def deltas(self, epsilons: Floats) -> Floats:
        return deltas_of_mu(epsilons, self.mu)

    def loss_range(self, tail: float) -> tuple[float, float]:
        high = epsilon_of_mu(tail, self.mu)
        return -high, high

    def log_decay_bound(self, tilt: float) -> Callable[[float], float]:
        return lambda frequency: -((self.mu * frequency) ** 2) / 2
