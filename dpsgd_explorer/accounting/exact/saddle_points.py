"""The tilts at which a composition's cumulants are known, and what follows from them.

A line of ``contour`` serves best at the tilt c that is the integrand's saddle point,

    K'(c) - ε - 1/c - 1/(c + 1) = 0,

and near it log δ ≈ K(c) - cε - log(c (c + 1)) - log(2πV) / 2 with V the second
derivative.  Both are evaluated on a fixed lattice of tilts: within a tenth is near
enough, and the same lattice serves the bounds on aliasing.  Where rare large losses
dominate (tiny sample rates) K explodes between two neighbours and the expansion is
wrong by any factor: there ε is guessed otherwise.

Notation: P phases, T rows (numbers of steps), J tilts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.exact.contour import EVERY, log_chernoff, log_peaks
from dpsgd_explorer.accounting.exact.privacy_loss import Loss

RATIO = 2**0.25  # of neighbouring tilts
MARGIN = 10  # tilts that are known on either side of c, at least
NEIGHBOURS = 16  # that may serve the bounds on aliasing, on either side
FIRST, LAST = -48, 128  # powers of RATIO: 2e-4 ... 4e9
CHUNK = 12
FIRST_CHUNK = 30  # up to 28
GRID = 65  # values of ε
JUMP = 20.0  # of log δ between two tilts, beyond log δ itself


class Tilts:
    """A lattice of tilts that grows as it is needed."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        """Start around tilt 1.

        Args:
            losses: Of one step of each phase.
        """
        self.losses = losses
        self._last = min(
            LAST, math.floor(math.log(min(x.largest_tilt for x in losses), RATIO))
        )
        self._first = self._end = -MARGIN
        self._moments = np.empty((len(losses), 3, 0))  # [P, 3, J]
        self._extend(up=True, by=FIRST_CHUNK)

    @property
    def values(self) -> Floats:
        """The tilts, [J]."""
        return np.asarray(RATIO ** np.arange(self._first, self._end))

    def saddles(
        self, counts: Floats, log_delta: float
    ) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return for each row the last tilt at which δ is not below delta, and ε.

        Returns:
            Index of the tilt, -1 where there is none; ε by interpolation.
        """
        total = counts.sum(axis=1)
        ends = counts[[int(total.argmin()), int(total.argmax())]]
        for few in (ends, counts):  # the lattice grows for few rows first
            while True:
                losses, logs = self._expansion(few)
                above = logs >= log_delta
                low, high = ~above[:, -1 - MARGIN], above[:, MARGIN]
                if not (self._too_low(low) or self._too_high(high)):
                    break
        places = np.where(above.any(axis=1), above.cumprod(axis=1).sum(axis=1) - 1, -1)
        last = above.shape[1] - MARGIN // 2
        places = np.where((places >= MARGIN // 2) & (places < last), places, -1)
        rows = np.arange(len(counts))
        here, there = places.clip(0), (places + 1).clip(0, above.shape[1] - 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (logs[rows, here] - log_delta) / (
                logs[rows, here] - logs[rows, there]
            )
            starts = losses[rows, here] + share * (
                losses[rows, there] - losses[rows, here]
            )
        jump = logs[rows, here] - logs[rows, there] > JUMP - log_delta
        places = np.where(jump & (places > MARGIN), places - 3, places)
        unknown = jump | ~np.isfinite(starts)
        if unknown.any():
            starts[unknown] = self._rare(counts[unknown], log_delta)
        return places, starts

    def _rare(self, counts: Floats, log_delta: float) -> Floats:
        """Return about ε where large losses are rare.

        Between Chernoff's bound and where the steps' own δ add up, as if one loss
        alone decided: nearer to it the less the bound has risen since the first step.
        """
        tops = self.chernoff(counts, log_delta)
        first = self.chernoff(counts / counts.sum(axis=1, keepdims=True), log_delta)
        grid = np.linspace(0.0, tops.max(), GRID)
        deltas = counts @ np.array([loss.deltas(grid) for loss in self.losses])
        with np.errstate(divide="ignore"):
            logs = np.log(deltas)  # [T, GRID], falling
        sums = np.array([np.interp(-log_delta, -row, grid) for row in logs])
        return np.asarray(tops - (first / tops) ** 3 * (tops - sums))

    def places_of(
        self, rows: Floats, epsilons: Floats
    ) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return for each row the last tilt whose saddle is not beyond ε, and log δ."""
        while True:
            losses, logs = self._expansion(rows)
            within = losses <= epsilons[:, None]
            if self._too_low(~within[:, -1 - MARGIN]) or self._too_high(
                within[:, MARGIN]
            ):
                continue
            break
        places = np.where(
            within.any(axis=1), within.cumprod(axis=1).sum(axis=1) - 1, -1
        )
        last = within.shape[1] - MARGIN // 2
        places = np.where((places >= MARGIN // 2) & (places < last), places, -1)
        return places, logs[np.arange(len(rows)), places.clip(0)]

    def chernoff(self, counts: Floats, log_delta: float) -> Floats:
        """Return an upper bound on ε at δ from K alone; [T, P] -> [T].

        δ <= κ(c) e^(K(c) - cε) for every c.
        """
        tilts, (cumulants, _, _) = self.values, self.cumulants(counts)
        logs = cumulants + log_peaks(tilts) - log_delta
        return np.asarray((logs / tilts).min(axis=1))

    def log_chernoff(self, rows: Floats, epsilons: Floats) -> Floats:
        """Return a bound on log δ of each row at its ε from K alone; [T]."""
        tilts, (cumulants, _, _) = self.values, self.cumulants(rows)
        return np.asarray(log_chernoff(tilts, cumulants, epsilons).min(axis=1))

    def cumulants(self, counts: Floats, part: slice = EVERY) -> Floats:
        """Return K, K', K'' of each row at the tilts, [3, T, J]."""
        found = np.einsum("tp,pkj->ktj", counts, self._moments[:, :, part])
        return np.asarray(found)

    def _expansion(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return ε and log δ of which each tilt is the saddle point; [T, J], [T, J]."""
        c, (cumulant, mean, variance) = self.values, self.cumulants(counts)
        losses = mean - 1 / c - 1 / (c + 1)
        spread = variance + 1 / c**2 + 1 / (c + 1) ** 2
        logs = cumulant - c * losses - np.log(c * (c + 1))
        return losses, logs - 0.5 * np.log(2 * np.pi * spread)

    def _too_low(self, bracketed: npt.NDArray[np.bool_]) -> bool:
        """Extend the lattice upwards if a row is not bracketed and it still can be."""
        if bracketed.all() or self._end >= self._last:
            return False
        self._extend(up=True)
        return True

    def _too_high(self, bracketed: npt.NDArray[np.bool_]) -> bool:
        if bracketed.all() or self._first <= FIRST:
            return False
        self._extend(up=False)
        return True

    def _extend(self, *, up: bool, by: int = CHUNK) -> None:
        edge = self._end if up else self._first - by
        new = np.array([_moments(loss, edge, by) for loss in self.losses])
        parts = [self._moments, new] if up else [new, self._moments]
        self._moments = np.concatenate(parts, axis=2)
        self._first, self._end = min(self._first, edge), max(self._end, edge + by)


@lru_cache(maxsize=1 << 13)
def _moments(loss: Loss, first: int, count: int) -> Floats:
    """Return K, K' and K'' of a step at so many tilts, [3, J]; searches ask again."""
    found = loss.moments(np.asarray(RATIO ** np.arange(first, first + count)))
    found.flags.writeable = False
    return found


def near(place: int) -> slice:
    """Return the tilts that may bound the aliasing of a line."""
    return slice(max(place - NEIGHBOURS, 0), place + NEIGHBOURS + 1)
