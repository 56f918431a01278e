"""The privacy loss of a step that draws, in the open, which mechanism it applies.

With probability w_i the i-th mechanism runs, and the outcome tells which.  Then

    δ(ε) = Σ w_i δ_i(ε),    e^K(s) = Σ w_i e^K_i(s),

in each direction, and likewise off the real line.

Notation: I mechanisms, J tilts, N frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.fourier import log1p
from dpsgd_explorer.accounting.exact.privacy_loss import EPS, Line, Loss

SMALL = 0.5  # moment below which e^K - 1 has more digits than e^K
LARGEST_TAIL = 0.25  # of a mechanism that hardly ever runs


@dataclass(frozen=True)
class Mixed(Loss):
    """A step of one of several mechanisms; the outcome tells of which.

    Attributes:
        weights: Probabilities of the mechanisms, each greater than 0, [I].
        parts: Their losses in one direction, [I].
    """

    weights: tuple[float, ...]
    parts: tuple[Loss, ...]

    @property
    def largest_tilt(self) -> float:  # type: ignore[override]  # as an attribute
        """The least of the parts'."""
        return min(part.largest_tilt for part in self.parts)

    def moments(self, tilts: Floats) -> Floats:
        found = np.array([part.moments(tilts) for part in self.parts])  # [I, 3, J]
        total, shares = self._mixed(found[:, 0])
        mean = (shares * found[:, 1]).sum(axis=0)
        spread = (shares * (found[:, 2] + (found[:, 1] - mean) ** 2)).sum(axis=0)
        return np.array([total, mean, spread])

    def _mixed(self, cumulants: Floats) -> tuple[Floats, Floats]:
        """Return K, and each part's share of e^K; [I, J] -> [J], [I, J]."""
        logs = np.log(self.weights)[:, None] + cumulants
        top = logs.max(axis=0)
        sums = np.exp(logs - top).sum(axis=0)
        total = top + np.log(sums)
        small = np.asarray(np.abs(cumulants).max(axis=0) < SMALL)
        excess = np.array(self.weights) @ np.expm1(np.where(small, cumulants, 0.0))
        excess += math.fsum(self.weights) - 1  # those of an upper side may exceed 1
        return np.where(small, np.log1p(excess), total), np.exp(logs - top) / sums

    def line(
        self, tilt: float, spacing: float, count: int, tolerance: float, products: int
    ) -> Line | None:
        each = products // len(self.parts)
        asked = (tilt, spacing, count, tolerance, each)
        lines = [line for x in self.parts if (line := x.line(*asked)) is not None]
        if len(lines) < len(self.parts):
            return None
        total, columns = self._mixed(np.array([[line.log_moment] for line in lines]))
        shares = columns[:, 0]
        mean = float(shares @ np.array([line.mean for line in lines]))
        own = max(line.moment_error for line in lines) + 4 * EPS
        turns = spacing * np.arange(count)
        excess = np.zeros(count, dtype=np.complex128)
        errors = np.zeros(count)
        for share, line in zip(shares, lines, strict=True):
            angle = turns * (line.mean - mean)
            apart = np.expm1(line.log_ratios + 1j * angle)
            excess += share * apart
            noise = (2 * own + 4 * EPS) * np.abs(apart) + EPS * np.abs(angle)
            errors += share * (line.errors + noise)
        return Line(float(total[0]), mean, log1p(excess), errors, own)

    def deltas(self, epsilons: Floats) -> Floats:
        found = np.array([part.deltas(epsilons) for part in self.parts])
        return np.asarray(np.array(self.weights) @ found)

    def span(self, tail: float) -> tuple[float, float]:
        tails = tail / (len(self.parts) * np.array(self.weights))
        ends = [
            part.span(float(min(x, LARGEST_TAIL)))
            for part, x in zip(self.parts, tails, strict=True)
        ]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def log_decay(self, tilt: float) -> Callable[[float], float]:
        at = np.array([tilt])
        cumulants = np.array([part.moments(at)[0] for part in self.parts])
        shares = self._mixed(cumulants)[1][:, 0]
        bounds = [part.log_decay(tilt) for part in self.parts]

        def bound(frequency: float) -> float:
            sizes = [math.exp(part(frequency)) for part in bounds]
            return min(math.log(max(float(shares @ sizes), 1e-300)), 0.0)

        return bound


def mixed(weights: Sequence[float], parts: Sequence[Loss]) -> Loss:
    """Return the loss of the mixture, the part itself if there is only one."""
    if len(parts) == 1:
        return parts[0]
    return Mixed(tuple(weights), tuple(parts))
