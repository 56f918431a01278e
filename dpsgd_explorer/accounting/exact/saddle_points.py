"""Saddle points of a composition's contour integral, on a grid of tilts.

A contour serves best at the saddle point of the integrand, the tilt c with

    K'(c) - ε - 1/c - 1/(c + 1) = 0.

With V = K''(c) + 1/c² + 1/(c + 1)² the second derivative there, the saddle-point
expansion to first order is log δ ≈ K(c) - cε - log(c (c + 1)) - log(2πV) / 2.

K, K' and K'' are evaluated on one geometric grid of tilts: a tilt within a tenth of the
saddle point is near enough, and the same values give Chernoff's bounds.  Where rare
large losses dominate (tiny sample rates), K explodes between two neighbouring tilts,
and the expansion is wrong by any factor.  There ε is guessed otherwise.

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

TILT_RATIO = 2**0.25  # of neighbouring tilts
MARGIN = 10  # tilts known on either side of a saddle point, at least
ALIAS_NEIGHBORS = 16  # tilts on either side that may bound the aliasing
LEAST_POWER, LARGEST_POWER = -48, 128  # of TILT_RATIO: tilts from 2e-4 to 4e9
EXTENSION = 12  # tilts evaluated at once
FIRST_EXTENSION = 30  # the same to begin with, up to tilt 28
GUESS_POINTS = 65  # values of ε for the guess where large losses are rare
LARGEST_LOG_DROP = 20.0  # of log δ between neighbours, plus |log δ|: beyond, K explodes


class SaddlePoints:
    """Cumulants of a composition on a grid of tilts that grows as needed.

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
        """Evaluate the cumulants around tilt 1."""
        self.losses = losses
        largest = min(loss.largest_tilt for loss in losses)
        self._last = min(LARGEST_POWER, math.floor(math.log(largest, TILT_RATIO)))
        self._first = self._end = -MARGIN
        self._of_steps = np.empty((len(losses), 3, 0))  # [P, 3, J]
        self._extend(up=True, count=FIRST_EXTENSION)

    @property
    def tilts(self) -> Floats:
        """The tilts with known cumulants, ascending; [J]."""
        return np.asarray(TILT_RATIO ** np.arange(self._first, self._end))

    def cumulants(self, counts: Floats, part: slice = ALL) -> Floats:
        """Return K, K', K'' of each row at the tilts; [T, P] -> [3, T, J]."""
        of_rows = np.einsum("tp,pkj->ktj", counts, self._of_steps[:, :, part])
        return np.asarray(of_rows)

    def at_delta(self, counts: Floats, log_delta: float) -> tuple[Indices, Floats]:
        """Return each row's saddle point at δ, and about its ε.

        Shapes: counts [T, P] -> [T], [T].

        Returns:
            Index of the last tilt whose ε has a larger δ, -1 without one; ε, by linear
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
        explodes = drop > LARGEST_LOG_DROP - log_delta
        indices = np.where(explodes & (indices > MARGIN), indices - 3, indices)
        unknown = explodes | ~np.isfinite(guesses)
        if unknown.any():
            guesses[unknown] = self._rare_loss_epsilons(counts[unknown], log_delta)
        return indices, guesses

    def at_epsilon(self, counts: Floats, epsilons: Floats) -> tuple[Indices, Floats]:
        """Return each row's saddle point at its ε, and about its log δ.

        Shapes: counts [T, P], epsilons [T] -> [T], [T].

        Returns:
            Index of the last tilt that is the saddle point of no larger ε, -1 without
            one; log δ there.
        """
        while True:
            saddle_epsilons, logs = self._expansion(counts)
            within = saddle_epsilons <= epsilons[:, None]
            if not self._extend_for(within):
                break
        indices = _last_true(within)
        return indices, logs[np.arange(len(counts)), indices.clip(0)]

    def chernoff_epsilons(self, counts: Floats, log_delta: float) -> Floats:
        """Return upper bounds on ε at δ from K alone; [T, P] -> [T].

        δ <= κ(c) e^(K(c) - cε) for every c: Chernoff's inequality, as in Rényi DP.
        """
        tilts, (cumulants, _, _) = self.tilts, self.cumulants(counts)
        logs = cumulants + log_kappa(tilts) - log_delta
        return np.asarray((logs / tilts).min(axis=1))

    def chernoff_log_deltas(self, counts: Floats, epsilons: Floats) -> Floats:
        """Return upper bounds on log δ at ε from K alone; [T, P], [T] -> [T]."""
        tilts, (cumulants, _, _) = self.tilts, self.cumulants(counts)
        return np.asarray(log_chernoff(tilts, cumulants, epsilons).min(axis=1))

    def _rare_loss_epsilons(self, counts: Floats, log_delta: float) -> Floats:
        """Return about ε where large losses are rare; [T, P] -> [T].

        Between Chernoff's bound and the ε at which the steps' own δ add up, as if one
        large loss alone decided.  The less Chernoff's bound has risen since the first
        step, the nearer to the latter.
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
        """Return ε of which each tilt is the saddle point, and about log δ there.

        Shapes: counts [T, P] -> [T, J], [T, J].
        """
        c, (cumulant, mean, variance) = self.tilts, self.cumulants(counts)
        epsilons = mean - 1 / c - 1 / (c + 1)
        curvature = variance + 1 / c**2 + 1 / (c + 1) ** 2
        logs = cumulant - c * epsilons - np.log(c * (c + 1))
        return epsilons, logs - 0.5 * np.log(2 * np.pi * curvature)

    def _extend_for(self, holds: Truths) -> bool:
        """Extend the grid if a row's saddle point may be too near its ends.

        Args:
            holds: Whether each tilt is below each row's saddle point, [T, J].

        Returns:
            Whether the grid was extended.
        """
        if holds[:, -1 - MARGIN].any() and self._end < self._last:
            self._extend(up=True)
        elif not holds[:, MARGIN].all() and self._first > LEAST_POWER:
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
    """Return the index before the first tilt at which a row fails; [T, J] -> [T].

    -1 where that is so near an end that too few tilts would bound the aliasing.
    """
    indices = np.where(holds.any(axis=1), holds.cumprod(axis=1).sum(axis=1) - 1, -1)
    last = holds.shape[1] - MARGIN // 2
    return np.where((indices >= MARGIN // 2) & (indices < last), indices, -1)


@lru_cache(maxsize=1 << 13)  # searches ask for the same steps again
def _step_cumulants(loss: PrivacyLoss, first: int, count: int) -> Floats:
    """Return K, K' and K'' of one step at `count` tilts from a power on, [3, J]."""
    cumulants = loss.cumulants(
        np.asarray(TILT_RATIO ** np.arange(first, first + count))
    )
    cumulants.flags.writeable = False
    return cumulants


def alias_window(index: int) -> slice:
    """Return the indices of the tilts that may bound the aliasing of a contour."""
    return slice(max(index - ALIAS_NEIGHBORS, 0), index + ALIAS_NEIGHBORS + 1)
