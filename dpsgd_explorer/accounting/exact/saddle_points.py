"""Saddle points of a composition's contour integral, on a grid of tilts.

The best contour passes through the saddle point of the integrand, the tilt c with

    K'(c) - ε - 1/c - 1/(c + 1) = 0.

With V = K''(c) + 1/c² + 1/(c + 1)² the second derivative there, the saddle-point
expansion to first order is log δ ≈ K(c) - cε - log(c (c + 1)) - log(2πV) / 2.

K, K' and K'' are evaluated on one geometric grid of tilts: a tilt within a tenth of the
saddle point is near enough, and the same values give Chernoff's bounds.  Where rare
large losses dominate (tiny sample rates), K explodes between two neighbouring tilts,
and the expansion is wrong by any factor.  There ε is guessed by other means.

Source: the expansion: Alghamdi et al. (2023), "The Saddle-Point Method in Differential
Privacy", ICML.

Notation: P phases, T rows (numbers of steps), J tilts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.exact.contour import ALL, log_chernoff, log_kappa
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyLoss

Indices = npt.NDArray[np.intp]
Truths = npt.NDArray[np.bool_]

#: Ratio of neighbouring tilts.
TILT_RATIO = 2**0.25
#: Smallest number of evaluated tilts on either side of a saddle point.
MIN_MARGIN = 10
#: Tilts on either side of a contour that may bound its aliasing.
ALIAS_NEIGHBORS = 16
#: Powers of TILT_RATIO between which tilts are evaluated: from 2e-4 to 4e9.
MIN_POWER, MAX_POWER = -48, 128
#: Number of tilts that an extension of the grid adds.
EXTENSION = 12
#: Number of tilts at the beginning, up to tilt 28.
FIRST_EXTENSION = 30
#: Values of ε for the guess where large losses are rare.
GUESS_POINTS = 65
#: Fall of log δ between neighbouring tilts, less |log δ|, above which K explodes.
MAX_LOG_DROP = 20.0


class SaddlePoints:
    """Cumulants of a composition on a grid of tilts, extended when needed.

    14,062 steps on batches of 256 of 60,000 with σ = 1.1, at δ = 1e-5; the exact ε is
    2.381597:

    >>> from dpsgd_explorer.accounting.exact import subsampled_gaussian
    >>> step = subsampled_gaussian.SubsampledGaussianLoss(256 / 60_000, 1.1, "remove")
    >>> saddles = SaddlePoints([step])
    >>> index, epsilon = saddles.at_delta(np.array([[14_062.0]]), math.log(1e-5))
    >>> round(float(saddles.tilts[index[0]]), 2), round(float(epsilon[0]), 2)
    (6.73, 2.37)

    Attributes:
        losses: Privacy losses of one step of each phase, [P].
    """

    def __init__(self, losses: Sequence[PrivacyLoss]) -> None:
        """Evaluates the cumulants around tilt 1."""
        self.losses = losses
        largest = min(loss.largest_tilt for loss in losses)
        self._last = min(MAX_POWER, math.floor(math.log(largest, TILT_RATIO)))
        self._first = self._end = -MIN_MARGIN
        self._of_steps = np.empty((len(losses), 3, 0))  # [P, 3, J]
        self._extend(up=True, count=FIRST_EXTENSION)

    @property
    def tilts(self) -> Floats:
        """The tilts with known cumulants, ascending; [J]."""
        return np.asarray(TILT_RATIO ** np.arange(self._first, self._end))

    def cumulants(self, counts: Floats, part: slice = ALL) -> Floats:
        """Returns K, K', K'' of each row at the tilts; [T, P] -> [3, T, J]."""
        of_rows = np.einsum("tp,pkj->ktj", counts, self._of_steps[:, :, part])
        return np.asarray(of_rows)

    def at_delta(self, counts: Floats, log_delta: float) -> tuple[Indices, Floats]:
        """Returns each row's saddle point at δ, and about the row's ε.

        Shapes: counts [T, P] -> [T], [T].

        Returns:
            Index of the last tilt at whose ε the δ is larger, or -1; ε, by linear
            interpolation in log δ.
        """
        total = counts.sum(axis=1)
        ends = counts[[int(total.argmin()), int(total.argmax())]]
        for rows in (ends, counts):  # two rows first: the others lie between them
            while True:
                epsilons, logs = self._expansion(rows)
                above = logs >= log_delta
                if not self._extend_for(above):
                    break
        indices = _last_true(above)
        row = np.arange(len(counts))
        here, there = indices.clip(0), (indices + 1).clip(0, above.shape[1] - 1)
        drop = logs[row, here] - logs[row, there]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (logs[row, here] - log_delta) / drop
            guesses = epsilons[row, here] + share * (
                epsilons[row, there] - epsilons[row, here]
            )
        explodes = drop > MAX_LOG_DROP - log_delta
        indices = np.where(explodes & (indices > MIN_MARGIN), indices - 3, indices)
        unknown = explodes | ~np.isfinite(guesses)
        if unknown.any():
            guesses[unknown] = self._rare_loss_epsilons(counts[unknown], log_delta)
        return indices, guesses

    def at_epsilon(self, counts: Floats, epsilons: Floats) -> tuple[Indices, Floats]:
        """Returns each row's saddle point at ε, and about the row's log δ.

        Shapes: counts [T, P], epsilons [T] -> [T], [T].

        Returns:
            Index of the last tilt that is the saddle point of no larger ε, or -1; log δ
            there.
        """
        while True:
            saddle_epsilons, logs = self._expansion(counts)
            within = saddle_epsilons <= epsilons[:, None]
            if not self._extend_for(within):
                break
        indices = _last_true(within)
        return indices, logs[np.arange(len(counts)), indices.clip(0)]

    def chernoff_epsilons(self, counts: Floats, log_delta: float) -> Floats:
        """Returns upper bounds on ε at δ from K alone; [T, P] -> [T].

        δ <= κ(c) e^(K(c) - cε) for every c: Chernoff's inequality, as in Rényi DP.
        """
        tilts, (cumulants, _, _) = self.tilts, self.cumulants(counts)
        logs = cumulants + log_kappa(tilts) - log_delta
        return np.asarray((logs / tilts).min(axis=1))

    def chernoff_log_deltas(self, counts: Floats, epsilons: Floats) -> Floats:
        """Returns upper bounds on log δ at ε from K alone; [T, P], [T] -> [T]."""
        tilts, (cumulants, _, _) = self.tilts, self.cumulants(counts)
        return np.asarray(log_chernoff(tilts, cumulants, epsilons).min(axis=1))

    def _rare_loss_epsilons(self, counts: Floats, log_delta: float) -> Floats:
        """Returns about ε where large losses are rare; [T, P] -> [T].

        The result is between Chernoff's bound and the ε at which the δ of single steps
        add up to δ, as if one large loss alone decided.  The less Chernoff's bound has
        risen since the first step, the nearer the result is to this ε.
        """
        chernoff = self.chernoff_epsilons(counts, log_delta)
        one_step = counts / counts.sum(axis=1, keepdims=True)
        first = self.chernoff_epsilons(one_step, log_delta)
        grid = np.linspace(0.0, chernoff.max(), GUESS_POINTS)
        deltas = counts @ np.array([loss.deltas(grid) for loss in self.losses])
        with np.errstate(divide="ignore"):
            logs = np.log(deltas)  # [T, GUESS_POINTS], falling
        added = np.array([np.interp(-log_delta, -row, grid) for row in logs])
        return np.asarray(chernoff - (first / chernoff) ** 3 * (chernoff - added))

    def _expansion(self, counts: Floats) -> tuple[Floats, Floats]:
        """Returns the ε whose saddle point is at each tilt, and about log δ at this ε.

        Shapes: counts [T, P] -> [T, J], [T, J].
        """
        c, (cumulant, mean, variance) = self.tilts, self.cumulants(counts)
        epsilons = mean - 1 / c - 1 / (c + 1)
        curvature = variance + 1 / c**2 + 1 / (c + 1) ** 2
        logs = cumulant - c * epsilons - np.log(c * (c + 1))
        return epsilons, logs - 0.5 * np.log(2 * np.pi * curvature)

    def _extend_for(self, holds: Truths) -> bool:
        """Extends the grid if a row's saddle point may be too near an end.

        Args:
            holds: True for tilts below the row's saddle point, [T, J].

        Returns:
            True if the grid was extended.
        """
        if holds[:, -1 - MIN_MARGIN].any() and self._end < self._last:
            self._extend(up=True)
        elif not holds[:, MIN_MARGIN].all() and self._first > MIN_POWER:
            self._extend(up=False)
        else:
            return False
        return True

    def _extend(self, *, up: bool, count: int = EXTENSION) -> None:
        edge = self._end if up else self._first - count
        new = np.array([_step_cumulants(loss, edge, count) for loss in self.losses])
        parts = [self._of_steps, new] if up else [new, self._of_steps]
        self._of_steps = np.concatenate(parts, axis=2)
        self._first, self._end = min(self._first, edge), max(self._end, edge + count)


def _last_true(holds: Truths) -> Indices:
    """Returns the index before the first False of each row; [T, J] -> [T].

    -1 if the index is so near an end that too few tilts would bound the aliasing.
    """
    indices = np.where(holds.any(axis=1), holds.cumprod(axis=1).sum(axis=1) - 1, -1)
    last = holds.shape[1] - MIN_MARGIN // 2
    return np.where((indices >= MIN_MARGIN // 2) & (indices < last), indices, -1)


@lru_cache(maxsize=1 << 13)  # searches evaluate the same steps again
def _step_cumulants(loss: PrivacyLoss, first: int, count: int) -> Floats:
    """Returns K, K' and K'' of one step at ``count`` tilts from a power on, [3, J]."""
    cumulants = loss.cumulants(
        np.asarray(TILT_RATIO ** np.arange(first, first + count))
    )
    cumulants.flags.writeable = False
    return cumulants


def alias_window(index: int) -> slice:
    """Returns the indices of the tilts that may bound the aliasing of a contour."""
    return slice(max(index - ALIAS_NEIGHBORS, 0), index + ALIAS_NEIGHBORS + 1)
