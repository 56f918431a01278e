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
from dpsgd_explorer.accounting.between import crowded, polynomial
from dpsgd_explorer.accounting.contour import (
    EVERY,
    MOST_FREQUENCIES,
    TOLERANCE,
    Contour,
    log_chernoff,
    log_peaks,
)
from dpsgd_explorer.accounting.crossings import (
    are_close,
    enclose,
)
from dpsgd_explorer.accounting.lattice import (
    POINTS,
    lattice_deltas,
    lattice_epsilons,
)
from dpsgd_explorer.accounting.privacy_loss import Loss

RATIO = 2**0.25  # of neighbouring tilts
MARGIN = 10  # tilts that are known on either side of c, at least
NEIGHBOURS = 16  # that may serve the bounds on aliasing, on either side
FIRST, LAST = -48, 128  # powers of RATIO: 2e-4 ... 4e9
CHUNK = 12
FIRST_CHUNK = 30  # up to 28
MOST_ROWS = 64  # to which discrete losses are fitted
GAP = 1e-4  # relative, above which discrete losses are tried
GOAL = 1e-6  # relative gap that ends the search for a better line
DETOUR = -3  # to a second line, in tilts
SPAN = 9  # tilts of rows that share a line
DELTA_SPAN = 4  # the same where all have as many steps
LEAST_LOG_DELTA = -60.0  # of a δ that is worth many frequencies
HASTY_ROWS = 256  # that as few frequencies are taken for, where it is not
MANY = 16  # steps from which a block is OCTAVES wide, before one
OCTAVES = 2.0
ROUGH = 1e-3  # tolerance of a comparison, and the octaves that share one
ROUGH_OCTAVES = 4.0
NEAR, FAR = 0.1, 2.0  # moves of log δ from where a line was made for
GRID = 65  # values of ε
MOST_PARTINGS = 3  # of rows that no line serves together
FEW_ROWS = 3  # that are not parted further where no line serves
MANY_ROWS = 36  # from which a few are solved first
AT_ONCE = 512  # rows of one sum
MOST_TERMS = 1 << 18  # of all its rows


class Composition:
    """Steps of one or more losses in one direction."""

    def __init__(self, losses: Sequence[Loss], refinements: int = len(POINTS)) -> None:
        """Start the lattice around tilt 1.

        Args:
            losses: Of one step of each phase.
            refinements: How often discrete losses may be refined, where no line serves.
        """
        self.losses = losses
        self.refinements = refinements
        self._last = min(
            LAST, math.floor(math.log(min(x.largest_tilt for x in losses), RATIO))
        )
        self._first = self._end = -MARGIN
        self._moments = np.empty((len(losses), 3, 0))  # [P, 3, J]
        self._extend(up=True, by=FIRST_CHUNK)

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
        if floors is not None:
            goals = np.full_like(floors, log_delta)
            below = self._are_below(counts, places, floors, goals)
            lower[below] = upper[below] = floors[below]
            places[below] = -1
        blocks, partings = list(_blocks(places, counts.sum(axis=1))), 0
        while blocks:
            block = rows = blocks.pop()
            served = False
            for at in self._lines(int(np.median(places[rows]))):
                for part in np.array_split(rows, len(rows) // AT_ONCE + 1):
                    found = self._solve(counts[part], at, starts[part], log_delta)
                    if found is not None:
                        served = True
                        lower[part] = np.maximum(lower[part], found[0])
                        upper[part] = np.minimum(upper[part], found[1])
                rows = rows[~are_close(lower[rows], upper[rows], GOAL)]
                if not len(rows):
                    break
            if not served and len(block) > FEW_ROWS and partings < MOST_PARTINGS:
                partings += 1
                blocks += _halves(block, counts.sum(axis=1))
        self._refine(counts, delta, lower, upper)
        return lower, np.minimum(upper, self.chernoff(counts, log_delta))

    def _are_below(
        self,
        counts: Floats,
        places: npt.NDArray[np.intp],
        epsilons: Floats,
        log_deltas: Floats,
    ) -> npt.NDArray[np.bool_]:
        """Tell of which rows δ is seen to lie below some at ε, [T], by rough sums."""
        seen = np.zeros(len(counts), dtype=bool)
        for rows in _blocks(places, counts.sum(axis=1), ROUGH_OCTAVES):
            for part in np.array_split(rows, len(rows) // AT_ONCE + 1):
                contour = self._contour(
                    counts[part],
                    int(np.median(places[part])),
                    epsilons[part],
                    log_deltas[part],
                    tolerance=ROUGH,
                )
                if not contour.useless:
                    found = contour.sum(epsilons[part], turns=False)
                    seen[part] = contour.at_most(found) <= log_deltas[part]
        return seen

    def _refine(
        self, counts: Floats, delta: float, lower: Floats, upper: Floats
    ) -> None:
        """Narrow what the lines have left open, by discrete losses.

        Where many rows are open only some are narrowed: the others lie between them.
        """
        rows = np.flatnonzero(~are_close(np.maximum(lower, 0.0), upper, GAP))
        if not len(rows):
            return
        steps = counts[rows].sum(axis=1)
        rows = rows[np.argsort(steps, kind="stable")]
        if len(rows) > MOST_ROWS:
            steps = np.sort(steps)
            some = np.searchsorted(steps, np.geomspace(steps[0], steps[-1], MOST_ROWS))
            rows = rows[np.unique(some.clip(max=len(rows) - 1))]
        tilts, (cumulants, _, _) = self._tilts(), self._lattice(counts[rows])
        low, high = lattice_epsilons(
            self.losses, counts[rows], delta, tilts, cumulants, self.refinements
        )
        lower[rows] = np.maximum(lower[rows], low)
        upper[rows] = np.minimum(upper[rows], high)

    def _lines(self, place: int) -> list[int]:
        """Return the tilts of the lines to try."""
        detour = place + DETOUR
        return [place, detour] if detour >= MARGIN // 2 else [place]

    def chernoff(self, counts: Floats, log_delta: float) -> Floats:
        """Return an upper bound on ε at δ from K alone; [T, P] -> [T].

        δ <= κ(c) e^(K(c) - cε) for every c.
        """
        tilts, (cumulants, _, _) = self._tilts(), self._lattice(counts)
        logs = cumulants + log_peaks(tilts) - log_delta
        return np.asarray((logs / tilts).min(axis=1))

    def _solve(
        self,
        counts: Floats,
        place: int,
        starts: Floats,
        log_delta: float,
    ) -> tuple[Floats, Floats] | None:
        """Return both sides for rows that share a line, None if it does not serve.

        Many rows begin on the polynomial, in log steps, through a few solved ones.
        """
        heights = np.log(counts.sum(axis=1))
        many = len(counts) > MANY_ROWS
        some = crowded(heights) if many else np.arange(len(counts))
        contour = self._contour(
            counts[some], place, starts[some], log_delta, rows=len(counts)
        )
        if contour.useless:
            return None
        found = enclose(contour, starts[some], log_delta)
        moved = np.abs(found[0] - starts[some]) * contour.tilt
        loose = ~are_close(*found[1:], GOAL) & (moved > NEAR)
        if np.any((moved > FAR) | loose) and np.all(np.isfinite(found[0])):
            better = self._contour(
                counts[some], place, found[0], log_delta, rows=len(counts)
            )
            if not better.useless:
                contour = better
                found = enclose(contour, found[0], log_delta)
        if many:
            if not are_close(found[1], found[2], GAP).any():
                return None
            contour = contour.of(counts, self._lattice(counts, _near(place)))
            found = enclose(contour, polynomial(heights, some, found[0]), log_delta)
        return found[1], found[2]

    def _contour(
        self,
        counts: Floats,
        place: int,
        epsilons: Floats,
        log_deltas: Floats | float,
        *,
        tolerance: float = TOLERANCE,
        rows: int = 1,
    ) -> Contour:
        """Return the line at a tilt, good near some ε and δ, for so many rows."""
        near = _near(place)
        return Contour(
            self.losses,
            counts,
            self._tilts()[near],
            self._lattice(counts, near),
            place - near.start,
            epsilons,
            np.broadcast_to(log_deltas, epsilons.shape),
            min(MOST_FREQUENCIES, MOST_TERMS // max(rows, len(counts))),
            tolerance,
        )

    def deltas(
        self, counts: Floats, epsilons: Floats, floors: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return log δ of one row of steps at each ε, from below and from above.

        Shapes: counts [P], at least 2 steps; epsilons, floors [T] -> [T], [T].

        Args:
            counts: Steps of each phase.
            epsilons: At which δ is asked for.
            floors: Log δ below which one is of no interest: rows that are seen to lie
                there get their floor as both sides.
        """
        rows = np.broadcast_to(counts, (len(epsilons), len(counts)))
        places, guesses = self._places_of(rows, epsilons)
        lower, upper = np.full(len(rows), -np.inf), self._log_chernoff(rows, epsilons)
        if floors is not None:
            some = np.where(np.isfinite(floors), places, -1)
            below = self._are_below(rows, some, epsilons, floors)
            lower[below] = upper[below] = floors[below]
            places[below] = -1
        for at in _blocks(places, counts.sum() * np.ones(len(rows)), span=DELTA_SPAN):
            matters = bool(np.any(upper[at] > LEAST_LOG_DELTA))
            lines = self._lines(int(np.median(places[at])))
            for line in lines if matters else lines[:1]:
                low, high = self._sums(
                    rows[at], line, epsilons[at], guesses[at], hasty=not matters
                )
                lower[at] = np.maximum(lower[at], low)
                upper[at] = np.minimum(upper[at], high)
                if np.all(upper[at] - lower[at] < GOAL):
                    break
        open_ = np.flatnonzero((upper - lower > GAP) & (upper > LEAST_LOG_DELTA))
        if len(open_):
            tilts, (cumulants, _, _) = self._tilts(), self._lattice(counts[None])
            low, high = lattice_deltas(
                self.losses,
                counts,
                epsilons[open_],
                tilts,
                cumulants[0],
                self.refinements,
            )
            lower[open_] = np.maximum(lower[open_], low)
            upper[open_] = np.minimum(upper[open_], high)
        return lower, upper

    def _log_chernoff(self, rows: Floats, epsilons: Floats) -> Floats:
        """Return a bound on log δ of each row at its ε from K alone; [T]."""
        tilts, (cumulants, _, _) = self._tilts(), self._lattice(rows)
        return np.asarray(log_chernoff(tilts, cumulants, epsilons).min(axis=1))

    def _sums(
        self,
        rows: Floats,
        place: int,
        epsilons: Floats,
        guesses: Floats,
        *,
        hasty: bool,
    ) -> tuple[Floats, Floats]:
        many = HASTY_ROWS if hasty else 1
        contour = self._contour(rows, place, epsilons, guesses, rows=many)
        if contour.useless:
            return np.full_like(epsilons, -np.inf), np.zeros_like(epsilons)
        found = contour.sum(epsilons, turns=False)
        logs, _ = contour.log_delta(found)
        if np.nanmax(np.abs(logs - guesses), initial=0.0) > 1.0:
            better = np.where(np.isfinite(logs), logs, guesses)
            second = self._contour(rows, place, epsilons, better, rows=many)
            if not second.useless:
                contour, found = second, second.sum(epsilons, turns=False)
        low, high = contour.at_least(found), contour.at_most(found)
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
        jump = logs[rows, here] - logs[rows, there] > 20 - log_delta
        places = np.where(jump & (places > MARGIN), places - 3, places)
        unknown = jump | ~np.isfinite(starts)
        if unknown.any():
            starts[unknown] = self._rare(counts[unknown], log_delta)
        return places, starts

    def _rare(self, counts: Floats, log_delta: float) -> Floats:
        """Return about ε where large losses are rare.

        Halfway between Chernoff's bound and where the steps' own δ add up, as if one
        loss alone decided.
        """
        tops = self.chernoff(counts, log_delta)
        grid = np.linspace(0.0, tops.max(), GRID)
        deltas = counts @ np.array([loss.deltas(grid) for loss in self.losses])
        with np.errstate(divide="ignore"):
            logs = np.log(deltas)  # [T, GRID], falling
        sums = np.array([np.interp(-log_delta, -row, grid) for row in logs])
        return 0.5 * (sums + tops)

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

    def _extend(self, *, up: bool, by: int = CHUNK) -> None:
        edge = self._end if up else self._first - by
        tilts: Floats = np.asarray(RATIO ** np.arange(edge, edge + by))
        new = np.array([loss.moments(tilts) for loss in self.losses])
        parts = [self._moments, new] if up else [new, self._moments]
        self._moments = np.concatenate(parts, axis=2)
        self._first, self._end = min(self._first, edge), max(self._end, edge + by)

    def _tilts(self) -> Floats:
        return np.asarray(RATIO ** np.arange(self._first, self._end))

    def _lattice(self, counts: Floats, part: slice = EVERY) -> Floats:
        """Return K, K', K'' of each row at the tilts, [3, T, J]."""
        found = np.einsum("tp,pkj->ktj", counts, self._moments[:, :, part])
        return np.asarray(found)

    def _expansion(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return ε and log δ of which each tilt is the saddle point; [T, J], [T, J]."""
        c, (cumulant, mean, variance) = self._tilts(), self._lattice(counts)
        losses = mean - 1 / c - 1 / (c + 1)
        spread = variance + 1 / c**2 + 1 / (c + 1) ** 2
        logs = cumulant - c * losses - np.log(c * (c + 1))
        return losses, logs - 0.5 * np.log(2 * np.pi * spread)


def _near(place: int) -> slice:
    """Return the tilts that may bound the aliasing of a line."""
    return slice(max(place - NEIGHBOURS, 0), place + NEIGHBOURS + 1)


def _blocks(
    places: npt.NDArray[np.intp],
    steps: Floats,
    octaves: float = OCTAVES,
    span: int = SPAN,
) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the rows that may share a line: like tilts, like numbers of steps.

    The fewest steps of a block decide how many frequencies all rows take, which costs
    little where they are few anyway.
    """
    heights = np.log2(steps)
    few = math.log2(MANY)
    blocks = np.where(steps < MANY, heights, few + (heights - few) / octaves)
    blocks = np.where(places >= 0, np.floor(blocks), -1)
    for block in np.unique(blocks[blocks >= 0]):
        rows = np.flatnonzero(blocks == block)
        groups = (places[rows] - places[rows].min()) // span
        for group in np.unique(groups):
            yield rows[groups == group]


def _halves(rows: npt.NDArray[np.intp], steps: Floats) -> list[npt.NDArray[np.intp]]:
    """Return the rows with fewer and those with more steps."""
    return np.array_split(rows[np.argsort(steps[rows], kind="stable")], 2)
