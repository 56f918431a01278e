"""Discrete privacy loss distributions as data: composition, ε and δ.

A distribution here is discrete: the probabilities, with the record, of the losses
first · interval, (first + 1) · interval, …, and of an infinite loss.  Its privacy curve
is nowhere below the true one, so that its δ and ε are bounds.

The distribution of a run is computed from the exact accountant's upper bound on δ at
each loss of the grid.  The largest convex curve below these points is still above the
true one, and a piecewise linear convex curve (in e^ε) belongs to a discrete loss
("connect the dots").  Convolutions are summed directly: a Fourier transform would lose
the digits of small probabilities.

Source: Doroshenko et al. (2022), "Connect the Dots", arXiv:2207.04380.

Notation: K losses of the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats

#: Upper bound on the relative round-off of all sums.
ROUND_OFF = 1e-9
#: Largest loss: its exponential, and the inverse of that, are floats.
MAX_LOSS = 600.0
#: Largest number of products of a convolution, which takes about half a second.
MAX_PRODUCTS = 1 << 30
#: Largest difference from 1 of the sum of a caller's probabilities.
MAX_TOTAL_ERROR = 1e-6


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """A discrete privacy loss in one direction, checked on creation.

    Randomized response with a lie in one of four answers has ε = log 3:

    >>> lie = LossDistribution(math.log(3), -1, np.array([0.25, 0.0, 0.75]))
    >>> round(lie.epsilon(1e-9), 4), round(math.log(3), 4)
    (1.0986, 1.0986)
    >>> lie
    LossDistribution(3 losses from -1.099 to 1.099, infinite=0)

    Attributes:
        interval: Distance of two losses, greater than 0.
        first: Index of the smallest loss, which is first · interval.
        probabilities: Probabilities of the losses with the record, [K].
        infinite: Probability of an infinite loss.

    Raises:
        AccountingError: names the attribute that is outside its domain; all
            probabilities must sum to 1, within a millionth.

    Source: Doroshenko et al. (2022), arXiv:2207.04380.
    """

    interval: float
    first: int
    probabilities: Floats
    infinite: float = 0.0

    def __post_init__(self) -> None:
        interval = validation.finite("interval", self.interval)
        if interval <= 0:
            validation.refuse("interval", "greater than 0", self.interval)
        infinite = validation.finite("infinite", self.infinite)
        most = int(MAX_LOSS / interval)
        first = validation.whole("first", self.first, -most, most)
        row = _probabilities(self.probabilities)
        validation.whole("first + probabilities", first + len(row), -most, most)
        total = float(row.sum()) + infinite
        if infinite < 0 or abs(total - 1) > MAX_TOTAL_ERROR:
            rule = "at least 0, and together with infinite 1"
            validation.refuse("probabilities", rule, total)
        checked = {"interval": interval, "first": first, "infinite": infinite}
        for name, value in {**checked, "probabilities": row}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Returns the number and range of the losses."""
        least, most = self.losses[[0, -1]]
        return (
            f"LossDistribution({len(self.losses)} losses from {least:.4g} to "
            f"{most:.4g}, infinite={self.infinite:.4g})"
        )

    @property
    def losses(self) -> Floats:
        """The losses, [K]."""
        indices = self.first + np.arange(len(self.probabilities))
        return np.asarray(self.interval * indices)

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        """Returns δ at each ε, which may be negative; [E] -> [E]."""
        values = validation.numbers("epsilon", epsilons)
        p_tails, q_tails = self._tails()
        index = np.searchsorted(self.losses, values)
        with np.errstate(over="ignore", invalid="ignore"):
            finite = p_tails[index] - np.exp(values) * q_tails[index]
        finite = np.where(q_tails[index] > 0, np.maximum(finite, 0.0), 0.0)
        return np.asarray(np.minimum((finite + self.infinite) * (1 + ROUND_OFF), 1.0))

    def epsilon(self, delta: float) -> float:
        """Returns ε >= 0 at delta, infinite if the infinite loss is as probable."""
        target = validation.delta(delta) / (1 + ROUND_OFF) - self.infinite
        if target <= 0:
            return math.inf
        p_tails, q_tails = self._tails()
        corners = np.maximum(p_tails[:-1] - np.exp(self.losses) * q_tails[:-1], 0.0)
        above = np.flatnonzero(corners > target)
        cell = int(above[-1]) + 1 if len(above) else 0  # from the corner before it
        if cell == len(self.losses):
            return max(float(self.losses[-1]), 0.0)
        loss = -math.inf
        if q_tails[cell] > 0 and p_tails[cell] > target:
            loss = math.log(p_tails[cell] - target) - math.log(q_tails[cell])
        return max(min(loss, float(self.losses[cell])) * (1 + ROUND_OFF), 0.0)

    def _tails(self) -> tuple[Floats, Floats]:
        """Returns the sums of p, and of p e^-ℓ, from each loss to the last; [K + 1]."""
        p = self.probabilities
        q = p * np.exp(-self.losses)
        p_tails, q_tails = (np.cumsum(x[::-1])[::-1] for x in (p, q))
        return np.append(p_tails, 0.0), np.append(q_tails, 0.0)

    def compose(self, other: LossDistribution) -> LossDistribution:
        """Returns the loss distribution of both mechanisms, one after the other.

        Raises:
            AccountingError: the intervals differ, or there are too many losses.
        """
        if other.interval != self.interval:
            rule = f"{self.interval!r}, as the other distribution's"
            validation.refuse("interval", rule, other.interval)
        work = len(self.probabilities) * len(other.probabilities)
        if work > MAX_PRODUCTS:
            validation.refuse(
                "probabilities", f"fewer: at most {MAX_PRODUCTS} products", work
            )
        return LossDistribution(
            self.interval,
            self.first + other.first,
            np.convolve(self.probabilities, other.probabilities),
            self.infinite + other.infinite - self.infinite * other.infinite,
        )

    def trimmed(self, tail: float) -> LossDistribution:
        """Returns a distribution of fewer losses, whose δ grows by at most ``tail``.

        The largest losses, with a total probability of at most ``tail``, become
        infinite.  The smallest losses, up to ``tail`` too, are raised to the smallest
        loss that remains.
        """
        p, tail = self.probabilities, validation.finite("tail", tail)
        start = int(np.searchsorted(np.cumsum(p), tail, side="right"))
        cut = int(np.searchsorted(np.cumsum(p[::-1]), tail, side="right"))
        start, end = min(start, len(p) - 1), max(len(p) - cut, start + 1)
        rest = p[start:end].copy()
        rest[0] += p[:start].sum()
        infinite = self.infinite + float(p[end:].sum())
        return LossDistribution(self.interval, self.first + start, rest, infinite)

    @classmethod
    def below(cls, interval: float, first: int, deltas: Floats) -> Self:
        """Returns the loss distribution of the largest convex curve below some points.

        Args:
            interval: Distance of two losses of the grid.
            first: Index of the smallest loss.
            deltas: Upper bounds on δ at each loss, [K].
        """
        from scipy.optimize import isotonic_regression  # its import takes 0.3 s

        row = validation.numbers("deltas", deltas)
        grid = cls(interval, first, np.eye(1, len(row))[0])  # checks the arguments
        losses = grid.losses
        curve = np.minimum.accumulate(np.clip(row, 0.0, 1.0))
        widths = np.diff(np.exp(losses), prepend=0.0)
        slopes = np.diff(curve, prepend=1.0) / widths
        convex = isotonic_regression(slopes, weights=widths).x
        bends = np.diff(np.append(np.minimum(convex, 0.0), 0.0))
        p = np.maximum(np.exp(losses) * bends, 0.0)
        return cls(interval, first, p, float(curve[-1]))

    @classmethod
    def two_tailed(cls, interval: float, curve: Floats, other: Floats) -> Self:
        """Returns the loss of one direction from δ at ε >= 0 in both directions.

        δ(-ε) = 1 - e^-ε + e^-ε δ'(ε), with δ' of the other direction.

        Args:
            interval: Distance of two losses of the grid.
            curve: Upper bounds on δ at 0, interval, 2 interval, …, [K].
            other: Upper bounds on δ in the other direction at these losses, [K].
        """
        shrink = np.exp(-interval * np.arange(len(curve) - 1, 0, -1))
        mirrored = 1 - shrink + shrink * other[:0:-1]
        return cls.below(interval, 1 - len(curve), np.concatenate([mirrored, curve]))


def _probabilities(values: npt.ArrayLike) -> Floats:
    row = validation.numbers("probabilities", values)
    if not row.size or not np.all(np.isfinite(row) & (row >= 0)):
        validation.refuse("probabilities", "numbers of at least 0, one or more", values)
    row.flags.writeable = False
    return row


def repeated(part: LossDistribution, count: int, tail: float) -> LossDistribution:
    """Returns ``count`` compositions of a loss with itself, each of them trimmed."""
    if count == 1:
        return part
    half = repeated(part, count // 2, tail)
    whole = half.compose(half).trimmed(tail)
    return whole.compose(part).trimmed(tail) if count % 2 else whole
