"""ε at δ, and δ at ε, of a composition in one direction, from below and from above.

The line of ``contour`` may lie anywhere right of 0; its place c decides how fast the
sum converges and how many digits cancel.  ``tilts`` finds good places; rows with like
places share a line, other lines are tried until the two sides meet, and discrete losses
serve where none does.

Notation: P phases, T rows (numbers of steps), J tilts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.chebyshev import crowded, polynomial
from dpsgd_explorer.accounting.exact.contour import (
    FEW_STEPS,
    MOST_FREQUENCIES,
    TOLERANCE,
    Contour,
)
from dpsgd_explorer.accounting.exact.discretized_pld import (
    POINTS,
    lattice_deltas,
    lattice_epsilons,
)
from dpsgd_explorer.accounting.exact.privacy_loss import Loss
from dpsgd_explorer.accounting.exact.root_enclosure import are_close, enclose
from dpsgd_explorer.accounting.exact.row_batches import blocks, halves
from dpsgd_explorer.accounting.exact.saddle_points import MARGIN, Tilts, near

MOST_ROWS = 64  # to which discrete losses are fitted
GAP = 1e-4  # relative, above which discrete losses are tried
GOAL = 1e-6  # relative gap that ends the search for a better line
DETOUR = -3  # to a second line, in tilts
DELTA_SPAN = 4  # the same where all have as many steps
LEAST_LOG_DELTA = -60.0  # of a δ that is worth many frequencies
HASTY_ROWS = 256  # that as few frequencies are taken for, where it is not
ROUGH = 1e-3  # tolerance of a comparison, and the octaves that share one
ROUGH_OCTAVES = 4.0
NEAR, FAR = 0.1, 2.0  # moves of log δ from where a line was made for
MOST_PARTINGS = 3  # of rows that no line serves together
FEW_ROWS = 3  # that are not parted further where no line serves
MANY_ROWS = 36  # from which a few are solved first
AT_ONCE = 512  # rows of one sum
MOST_TERMS = 1 << 18  # of all its rows


class Composition:
    """Steps of one or more losses in one direction."""

    def __init__(
        self,
        losses: Sequence[Loss],
        refinements: int = len(POINTS),
        frequencies: int = MOST_FREQUENCIES,
        *,
        two_sided: bool = True,
    ) -> None:
        """Start the lattice around tilt 1.

        Args:
            losses: Of one step of each phase.
            refinements: How often discrete losses may be refined, where no line serves.
            frequencies: That a line may have; with fewer than may be, one line is tried
                and none after few steps.
            two_sided: Whether discrete losses are to give the lower side of ε as well.
        """
        self.losses = losses
        self.most, self.thorough = frequencies, frequencies == MOST_FREQUENCIES
        self.refinements, self.two_sided = refinements, two_sided
        self._tilts = Tilts(losses)

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
        places, starts = self._tilts.saddles(counts, log_delta)
        if floors is not None:
            goals = np.full_like(floors, log_delta)
            below = self._are_below(counts, places, floors, goals)
            lower[below] = upper[below] = floors[below]
            places[below] = -1
        left, partings = self._blocks(counts, places), 0
        while left:
            block = rows = left.pop()
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
                left += halves(block, counts.sum(axis=1))
        self._refine(counts, delta, lower, upper)
        return lower, np.minimum(upper, self._tilts.chernoff(counts, log_delta))

    def _blocks(
        self, counts: Floats, places: npt.NDArray[np.intp]
    ) -> list[npt.NDArray[np.intp]]:
        """Return the rows that may share a line and are worth one."""
        steps = counts.sum(axis=1)
        if self.refinements and not self.thorough:  # discrete losses are as quick
            places = np.where(steps < FEW_STEPS, -1, places)
        return list(blocks(places, steps))

    def _are_below(
        self,
        counts: Floats,
        places: npt.NDArray[np.intp],
        epsilons: Floats,
        log_deltas: Floats,
    ) -> npt.NDArray[np.bool_]:
        """Tell of which rows δ is seen to lie below some at ε, [T], by rough sums."""
        seen = np.zeros(len(counts), dtype=bool)
        for rows in blocks(places, counts.sum(axis=1), ROUGH_OCTAVES):
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
        cumulants = self._tilts.cumulants(counts[rows])[0]
        low, high = lattice_epsilons(
            self.losses,
            counts[rows],
            delta,
            self._tilts.values,
            cumulants,
            self.refinements,
            two_sided=self.two_sided,
        )
        lower[rows] = np.maximum(lower[rows], low)
        upper[rows] = np.minimum(upper[rows], high)

    def chernoff(self, counts: Floats, log_delta: float) -> Floats:
        """Return an upper bound on ε at δ from K alone; [T, P] -> [T]."""
        return self._tilts.chernoff(counts, log_delta)

    def _lines(self, place: int) -> list[int]:
        """Return the tilts of the lines to try."""
        detour = place + DETOUR
        return [place, detour][: 1 + (self.thorough and detour >= MARGIN // 2)]

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
            contour = contour.of(counts, self._tilts.cumulants(counts, near(place)))
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
        window = near(place)
        return Contour(
            self.losses,
            counts,
            self._tilts.values[window],
            self._tilts.cumulants(counts, window),
            place - window.start,
            epsilons,
            np.broadcast_to(log_deltas, epsilons.shape),
            min(self.most, MOST_TERMS // max(rows, len(counts))),
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
        places, guesses = self._tilts.places_of(rows, epsilons)
        lower = np.full(len(rows), -np.inf)
        upper = self._tilts.log_chernoff(rows, epsilons)
        if floors is not None:
            some = np.where(np.isfinite(floors), places, -1)
            below = self._are_below(rows, some, epsilons, floors)
            lower[below] = upper[below] = floors[below]
            places[below] = -1
        for at in blocks(places, counts.sum() * np.ones(len(rows)), span=DELTA_SPAN):
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
            cumulants = self._tilts.cumulants(counts[None])[0, 0]
            low, high = lattice_deltas(
                self.losses,
                counts,
                epsilons[open_],
                self._tilts.values,
                cumulants,
                self.refinements,
            )
            lower[open_] = np.maximum(lower[open_], low)
            upper[open_] = np.minimum(upper[open_], high)
        return lower, upper

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
