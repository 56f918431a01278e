"""ε at δ, and δ at ε, of a composition in one direction, from below and from above.

The line of ``contour`` may lie anywhere right of 0; its place c decides how fast the
sum converges and how many digits cancel.  Good is the saddle point of the integrand,

    K'(c) - ε - 1/c - 1/(c + 1) = 0,

and near it log δ ≈ K(c) - cε - log(c (c + 1)) - log(2πV) / 2 with V the second
derivative.  Both are evaluated on a fixed lattice of tilts: within a tenth is near
enough, and the same lattice serves the bounds on aliasing.  Where rare large losses
dominate (tiny sample rates) K explodes between two neighbours and the expansion is
wrong by any factor: the root is then found from the sum itself, and other lines are
tried until the two sides meet.

Notation: P phases, T rows (numbers of steps), J tilts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.accountant import Floats
from dpsgd_explorer.accounting.contour import MOST_FREQUENCIES, Contour, Sum
from dpsgd_explorer.accounting.privacy_loss import Loss

RATIO = 2**0.25  # of neighbouring tilts
MARGIN = 10  # tilts on either side of c, for the bounds on aliasing
FIRST, LAST = -48, 128  # powers of RATIO: 2e-4 ... 4e9
CHUNK = 12
GOAL = 1e-7  # relative gap that ends the search for a better line
DETOURS = (-3, 0, -7)  # further lines, in tilts away from the first
MOST_DETOURS = 4  # of one composition: bounds its time
ROOT = 1e-12  # error of log δ that ends Newton's steps
MOST_ITERATIONS = 40
SPAN = 6  # tilts of rows that share a line
AT_ONCE = 512  # rows of one sum


class Composition:
    """Steps of one or more losses in one direction."""

    def __init__(self, losses: Sequence[Loss], detours: int = MOST_DETOURS) -> None:
        """Start the lattice around tilt 1.

        Args:
            losses: Of one step of each phase.
            detours: Lines that may be tried in all where the first is not enough.
        """
        self.losses = losses
        self._detours_left = detours
        self._last = min(
            LAST, math.floor(math.log(min(x.largest_tilt for x in losses), RATIO))
        )
        self._first = self._end = -MARGIN
        self._moments = np.empty((len(losses), 3, 0))  # [P, 3, J]
        self._extend(up=True)
        self._extend(up=True)

    def epsilons(
        self, counts: Floats, delta: float, floors: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return ε at delta after each row of steps, from below and from above.

        Shapes: counts [T, P], at least 2 steps a row; floors [T] -> [T], [T].

        Args:
            counts: Steps of each phase.
            delta: In (0, 1).
            floors: Below which an ε is of no interest: rows that are seen to lie there
                get their floor as both sides.

        Returns:
            Real numbers, also negative ones.  The upper one is at most Chernoff's
            bound; the lower one is -infinity where none was found.
        """
        lower, upper = np.full(len(counts), -np.inf), np.full(len(counts), np.inf)
        log_delta = math.log(delta)
        places, starts = self._saddles(counts, log_delta)
        for rows in _blocks(places, counts.sum(axis=1)):
            for at, most in self._lines(int(np.median(places[rows]))):
                for part in np.array_split(rows, len(rows) // AT_ONCE + 1):
                    low, high = self._solve(
                        counts[part],
                        at,
                        starts[part],
                        log_delta,
                        most,
                        None if floors is None else floors[part],
                    )
                    lower[part] = np.maximum(lower[part], low)
                    upper[part] = np.minimum(upper[part], high)
                rows = rows[~_close(lower[rows], upper[rows])]
                if not len(rows):
                    break
                starts[rows] = 0.0
        return lower, np.minimum(upper, self.chernoff(counts, log_delta))

    def _lines(self, place: int) -> Iterator[tuple[int, int]]:
        """Yield lines to try and how many frequencies each may take."""
        yield place, MOST_FREQUENCIES
        for detour in DETOURS:
            at = place + detour
            if self._detours_left and at >= MARGIN // 2:
                self._detours_left -= 1
                yield at, 8 * MOST_FREQUENCIES

    def chernoff(self, counts: Floats, log_delta: float) -> Floats:
        """Return an upper bound on ε at δ from K alone; [T, P] -> [T].

        δ <= κ(c) e^(K(c) - cε) for every c.
        """
        tilts, (cumulants, _, _) = self._lattice(counts)
        peaks = tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)  # log κ
        return np.asarray(((cumulants + peaks - log_delta) / tilts).min(axis=1))

    def _solve(
        self,
        counts: Floats,
        place: int,
        starts: Floats,
        log_delta: float,
        most: int,
        floors: Floats | None,
    ) -> tuple[Floats, Floats]:
        """Return both sides for rows that share a line."""
        contour = self._contour(counts, place, starts, log_delta, most)
        if contour.useless:
            return np.full_like(starts, -np.inf), np.full_like(starts, np.inf)
        if floors is not None and _seen(contour.sum(floors), log_delta, 1).all():
            return floors, floors
        roots = _roots(contour, starts, log_delta)
        moved = np.abs(roots - starts) * contour.tilt
        if np.any(moved > 2.0) and np.all(np.isfinite(roots)):
            better = self._contour(counts, place, roots, log_delta, most)
            if not better.useless:
                contour, roots = better, _roots(better, roots, log_delta)
        return _side(contour, roots, log_delta, -1), _side(contour, roots, log_delta, 1)

    def _contour(
        self,
        counts: Floats,
        place: int,
        epsilons: Floats,
        log_deltas: Floats | float,
        most: int,
    ) -> Contour:
        tilts, cumulants = self._lattice(counts)
        return Contour(
            self.losses,
            counts,
            tilts,
            cumulants,
            place,
            epsilons,
            np.broadcast_to(log_deltas, epsilons.shape),
            most,
        )

    def deltas(self, counts: Floats, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return log δ of one row of steps at each ε, from below and from above.

        Shapes: counts [P], at least 2 steps; epsilons [T] -> [T], [T].
        """
        rows = np.broadcast_to(counts, (len(epsilons), len(counts)))
        lower, upper = np.full(len(rows), -np.inf), np.zeros(len(rows))
        places, guesses = self._places_of(rows, epsilons)
        for place in np.unique(places[places >= 0]):
            at = np.flatnonzero(places == place)
            for line, most in self._lines(int(place)):
                low, high = self._sums(rows[at], line, epsilons[at], guesses[at], most)
                lower[at] = np.maximum(lower[at], low)
                upper[at] = np.minimum(upper[at], high)
                if np.all(upper[at] - lower[at] < GOAL):
                    break
        chernoff = self._log_chernoff(rows, epsilons)
        return lower, np.minimum(upper, chernoff)

    def _log_chernoff(self, rows: Floats, epsilons: Floats) -> Floats:
        """Return a bound on log δ of each row at its ε from K alone; [T]."""
        tilts, (cumulants, _, _) = self._lattice(rows)
        peaks = tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)  # log κ
        return np.asarray((cumulants + peaks - np.outer(epsilons, tilts)).min(axis=1))

    def _sums(
        self, rows: Floats, place: int, epsilons: Floats, guesses: Floats, most: int
    ) -> tuple[Floats, Floats]:
        contour = self._contour(rows, place, epsilons, guesses, most)
        if contour.useless:
            return np.full_like(epsilons, -np.inf), np.zeros_like(epsilons)
        found = contour.sum(epsilons)
        if np.nanmax(np.abs(found.log_delta - guesses), initial=0.0) > 1.0:
            better = np.where(np.isfinite(found.log_delta), found.log_delta, guesses)
            second = self._contour(rows, place, epsilons, better, most)
            found = found if second.useless else second.sum(epsilons)
        with np.errstate(divide="ignore", invalid="ignore"):
            low = found.log_delta + np.log1p(-np.minimum(found.above, 1.0))
            high = found.log_delta + np.log1p(found.below)
        return (
            np.where(np.isfinite(low), low, -np.inf),
            np.where(np.isfinite(high), np.minimum(high, 0.0), 0.0),
        )

    def _saddles(
        self, counts: Floats, log_delta: float
    ) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return for each row the last tilt at which δ is not below delta, and ε.

        Returns:
            Index of the tilt, -1 where there is none; ε by interpolation.
        """
        while True:
            losses, logs = self._expansion(counts)
            above = logs >= log_delta
            if self._too_low(~above[:, -1 - MARGIN]) or self._too_high(
                above[:, MARGIN]
            ):
                continue
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
        jump = logs[rows, here] - logs[rows, there] > 20 - log_delta
        places = np.where(jump & (places > MARGIN), places - 3, places)
        return places, np.where(jump | ~np.isfinite(starts), 0.0, starts)

    def _places_of(
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

    def _extend(self, *, up: bool) -> None:
        edge = self._end if up else self._first - CHUNK
        tilts: Floats = np.asarray(RATIO ** np.arange(edge, edge + CHUNK))
        new = np.array([loss.moments(tilts) for loss in self.losses])
        parts = [self._moments, new] if up else [new, self._moments]
        self._moments = np.concatenate(parts, axis=2)
        self._first, self._end = min(self._first, edge), max(self._end, edge + CHUNK)

    def _tilts(self) -> Floats:
        return np.asarray(RATIO ** np.arange(self._first, self._end))

    def _lattice(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return tilts [J] and K, K', K'' of each row, [3, T, J]."""
        return self._tilts(), np.einsum("tp,pkj->ktj", counts, self._moments)

    def _expansion(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return ε and log δ of which each tilt is the saddle point; [T, J], [T, J]."""
        c, (cumulant, mean, variance) = self._lattice(counts)
        losses = mean - 1 / c - 1 / (c + 1)
        spread = variance + 1 / c**2 + 1 / (c + 1) ** 2
        logs = cumulant - c * losses - np.log(c * (c + 1))
        return losses, logs - 0.5 * np.log(2 * np.pi * spread)


def _blocks(
    places: npt.NDArray[np.intp], steps: Floats
) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the rows that may share a line: like tilts, like numbers of steps."""
    octaves = np.where(places >= 0, np.floor(np.log2(steps)), -1)
    for octave in np.unique(octaves[octaves >= 0]):
        rows = np.flatnonzero(octaves == octave)
        groups = (places[rows] - places[rows].min()) // SPAN
        for group in np.unique(groups):
            yield rows[groups == group]


def _roots(contour: Contour, starts: Floats, log_delta: float) -> Floats:
    """Return where S = δ in each row: Newton's steps, bisection where they leave."""
    x = starts.copy()
    low, high = np.full_like(x, -np.inf), np.full_like(x, np.inf)
    reach = contour.period / 4
    for _ in range(MOST_ITERATIONS):
        value, slope = contour.value(x)
        excess = value - log_delta
        over = excess > 0  # NaN: too far out, where nothing but noise is left
        low, high = np.where(over, x, low), np.where(over, high, x)
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.clip(excess / -slope, -reach, reach)
        step = np.where(np.isfinite(step) & (slope < 0), step, -reach)
        new = x + step
        bounded = np.isfinite(low) & np.isfinite(high)
        outside = bounded & ((new <= low) | (new >= high))
        with np.errstate(invalid="ignore"):
            new = np.where(outside, 0.5 * (low + high), new)
        moved = new - x
        x = np.where(np.abs(excess) < ROOT, x, new)
        if np.all((np.abs(excess) < ROOT) | (np.abs(moved) <= 1e-14 * np.abs(x))):
            break
    return x


def _side(contour: Contour, roots: Floats, log_delta: float, side: int) -> Floats:
    """Return an ε that is seen to lie above (side 1) or below (-1) the true one."""
    found = contour.sum(roots)
    error = found.below if side > 0 else found.above
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = 1.01 * error / -found.slope + 1e-15 * np.abs(roots)
    result = np.full_like(roots, side * np.inf)
    for _ in range(4):
        x = roots + side * shift
        seen = _seen(contour.sum(x), log_delta, side)
        result = np.where(seen & ~np.isfinite(result), x, result)
        if np.isfinite(result).all():
            break
        shift = 4 * shift
    return result


def _seen(found: Sum, log_delta: float, side: int) -> npt.NDArray[np.bool_]:
    """Tell whether δ is certainly at most (side 1) or at least (-1) this; [T]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if side > 0:
            return np.asarray(found.log_delta + np.log1p(found.below) <= log_delta)
        kept = np.log1p(-np.minimum(found.above, 1.0))
        return np.asarray(found.log_delta + kept >= log_delta)


def _close(lower: Floats, upper: Floats) -> npt.NDArray[np.bool_]:
    """Tell whether both sides meet within GOAL, or ε is 0."""
    with np.errstate(invalid="ignore"):
        near = np.isfinite(upper) & (upper - lower <= GOAL * np.abs(upper))
        return np.asarray(near | (upper <= 0))
