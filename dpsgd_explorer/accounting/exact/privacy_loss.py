"""The privacy loss of one step: its moments, and its transform on a vertical line.

Let P be the step's output with the record, Q without it (or the other way round), and
ℓ = log P/Q.  Everything that composition needs is K(s) = log E_P[e^(sℓ)]: it adds up
over steps.

Notation: J tilts c, N frequencies u.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.fourier import Complexes
from dpsgd_explorer.accounting.core.gaussian import deltas_of_mu, epsilon_of_mu

Direction = Literal["remove", "add", "replace"]

EPS = float(np.finfo(float).eps)
USELESS = 1e12


@dataclass(frozen=True)
class Line:
    """log(E_P[e^(sℓ)] / E_P[e^(cℓ)]) at s = c + ihk for k = 0 ... N - 1.

    Attributes:
        log_moment: K(c).
        mean: Of ℓ under the tilt c.
        log_ratios: The logarithms less the phase i h k mean, [N].
        errors: Bounds on the errors of the ratios, [N].
        moment_error: Bound on that of e^K(c), relative.
    """

    log_moment: float
    mean: float
    log_ratios: Complexes
    errors: Floats
    moment_error: float


class Loss(ABC):
    """The privacy loss of one step in one direction.

    Attributes:
        largest_tilt: Up to which the moments are cheap enough.
    """

    largest_tilt: float = math.inf

    @abstractmethod
    def moments(self, tilts: Floats) -> Floats:
        """Return K, K' and K'' at each tilt; [J] -> [3, J]."""

    @abstractmethod
    def line(
        self,
        tilt: float,
        spacing: float,
        count: int,
        tolerance: float,
        products: int,
    ) -> Line | None:
        """Return the transform on a vertical line, None if it would be useless.

        Args:
            tilt: Its real part c, above 0.
            spacing: Of the frequencies, h.
            count: How many, N.
            tolerance: Error that is wanted; USELESS times as much is no help.
            products: Of frequencies and nodes, that may be taken.
        """

    @abstractmethod
    def deltas(self, epsilons: Floats) -> Floats:
        """Return the step's own δ at each ε, which may be negative; [K] -> [K]."""

    @abstractmethod
    def span(self, tail: float) -> tuple[float, float]:
        """Return between which losses all but such a tail lies.

        Below: P(ℓ < low) <= tail.  Above: δ(high) <= tail.
        """

    @abstractmethod
    def log_decay(self, tilt: float) -> Callable[[float], float]:
        """Return a bound on log |E[e^((c + iu)ℓ)]| / E[e^(cℓ)] for all |u| >= ..."""


@dataclass(frozen=True)
class Gaussian(Loss):
    """A step on all records: K(s) = μ² s (s + 1) / 2."""

    mu: float

    def moments(self, tilts: Floats) -> Floats:
        square = self.mu**2
        slopes = square * (tilts + 0.5)
        return np.array(
            [square * tilts * (tilts + 1) / 2, slopes, np.full_like(tilts, square)]
        )

    def line(
        self,
        tilt: float,
        spacing: float,
        count: int,
        tolerance: float,
        products: int,
    ) -> Line:
        u = spacing * np.arange(count)
        square = self.mu**2
        return Line(
            square * tilt * (tilt + 1) / 2,
            square * (tilt + 0.5),
            (-square * u * u / 2).astype(np.complex128),
            np.zeros(count),
            EPS * square * tilt * (tilt + 1),
        )

    def deltas(self, epsilons: Floats) -> Floats:
        return deltas_of_mu(epsilons, self.mu)

    def span(self, tail: float) -> tuple[float, float]:
        high = epsilon_of_mu(tail, self.mu)
        return -high, high

    def log_decay(self, tilt: float) -> Callable[[float], float]:
        return lambda frequency: -((self.mu * frequency) ** 2) / 2
