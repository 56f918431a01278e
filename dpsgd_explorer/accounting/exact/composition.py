"""Bounds on ε at δ, and on δ at ε, of a composition in one direction.

The contour may lie at any tilt c > 0; c decides how fast its sum converges and how many
digits cancel.  Rows with near saddle points and like numbers of steps share a contour.
A second one is tried where the bounds of the first do not meet, and discretised PLDs
where no contour serves.

Notation: P phases, T rows (numbers of steps, or ε), J tilts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.chebyshev import chebyshev_nodes, interpolated
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.contour import (
    FEW_STEPS,
    MAX_FREQUENCIES,
    Contour,
)
from dpsgd_explorer.accounting.exact.pld_bounds import (
    MAX_REFINEMENTS,
    discretized_epsilons,
    discretized_log_deltas,
)
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyLoss
from dpsgd_explorer.accounting.exact.root_enclosure import (
    RootEnclosure,
    bounds_meet,
    enclose_roots,
)
from dpsgd_explorer.accounting.exact.saddle_points import (
    MARGIN,
    Indices,
    SaddlePoints,
    alias_window,
)

SECOND_CONTOUR = -3  # tilts from the first one
TILT_SPAN = 9  # neighbouring tilts whose rows share a contour
DELTA_TILT_SPAN = 4  # the same for several ε after the same steps
OCTAVES = 2.0  # log2 of the ratio of steps in one batch, from MANY_STEPS steps on
COMPARISON_OCTAVES = 4.0  # the same where sums are only compared
MANY_STEPS = 16  # with fewer, a batch is one octave wide
# A contour is made for a log δ.  If a root lies further from it than NEAR_MOVE and its
# bounds do not meet, or further than FAR_MOVE, the contour is made again.
NEAR_MOVE, FAR_MOVE = 0.1, 2.0
LEAST_LOG_DELTA = -60.0  # of a δ that is worth many frequencies
SMALL_DELTA_ROWS = 256  # a smaller δ takes as few frequencies as so many rows
MAX_PLD_ROWS = 64  # rows for which discretised PLDs are composed
MANY_ROWS = 36  # from which some are solved first, and the others begin between them
MAX_SPLITS = 3  # of batches that no contour serves
FEW_ROWS = 3  # of a batch that is not split
MAX_SUM_ROWS = 512  # of one sum
MAX_TERMS = 1 << 18  # of all rows of one sum


class Composition:
    """The composition of steps of one or more phases in one direction.

    14,062 steps on batches of 256 of 60,000 with σ = 1.1, at δ = 1e-5:

    >>> from dpsgd_explorer.accounting.exact import subsampled_gaussian
    >>> step = subsampled_gaussian.SubsampledGaussianLoss(256 / 60_000, 1.1, "remove")
    >>> lower, upper = Composition([step]).epsilons(np.array([[14_062.0]]), 1e-5)
    >>> round(float(lower[0]), 6), round(float(upper[0]), 6)
    (2.381597, 2.381597)
    """

    def __init__(
        self,
        losses: Sequence[PrivacyLoss],
        refinements: int = MAX_REFINEMENTS,
        max_frequencies: int = MAX_FREQUENCIES,
        *,
        two_sided: bool = True,
    ) -> None:
        """Evaluate the cumulants around tilt 1.

        Args:
            losses: Privacy loss of one step of each phase.
            refinements: How often discretised PLDs may be refined.
            max_frequencies: Largest number of frequencies of a contour.  Below
                MAX_FREQUENCIES one contour is tried, and none after few steps.
            two_sided: Whether discretised PLDs give lower bounds on ε as well.
        """
        self.losses = losses
        self.max_frequencies = max_frequencies
        self.is_thorough = max_frequencies == MAX_FREQUENCIES
        self.refinements, self.two_sided = refinements, two_sided
        self._saddles = SaddlePoints(losses)

    def epsilons(
        self, counts: Floats, delta: float, floors: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return lower and upper bounds on ε at delta after each row of steps.

        Shapes: counts [T, P], at least 2 steps per row; floors [T] -> [T], [T].

        Args:
            counts: Steps of each phase.
            delta: In (0, 1).
            floors: A smaller ε is of no interest.  Rows that are proven to be below
                their floor get it as both bounds.

        Returns:
            Real numbers, also negative ones.  The upper bound is at most Chernoff's;
            the lower one is -infinity where none was found.
        """
        lower, upper = np.full(len(counts), -np.inf), np.full(len(counts), np.inf)
        log_delta = math.log(delta)
        indices, guesses = self._saddles.at_delta(counts, log_delta)
        if floors is not None:
            goals = np.full_like(floors, log_delta)
            below = self._are_below(counts, indices, floors, goals)
            lower[below] = upper[below] = floors[below]
            indices[below] = -1
        batches, splits = self._batches(counts, indices), 0
        while batches:
            batch = rows = batches.pop()
            is_served = False
            for index in self._contour_indices(int(np.median(indices[rows]))):
                for part in np.array_split(rows, len(rows) // MAX_SUM_ROWS + 1):
                    enclosure = self._solve(
                        counts[part], index, guesses[part], log_delta
                    )
                    if enclosure is not None:
                        is_served = True
                        lower[part] = np.maximum(lower[part], enclosure.lower)
                        upper[part] = np.minimum(upper[part], enclosure.upper)
                meet = bounds_meet(lower[rows], upper[rows], TOLERANCES.contour_gap)
                rows = rows[~meet]
                if not len(rows):
                    break
            if not is_served and len(batch) > FEW_ROWS and splits < MAX_SPLITS:
                splits += 1
                batches += split_in_two(batch, counts.sum(axis=1))
        self._refine(counts, delta, lower, upper)
        return lower, np.minimum(upper, self.chernoff_epsilons(counts, log_delta))

    def chernoff_epsilons(self, counts: Floats, log_delta: float) -> Floats:
        """Return Chernoff's upper bounds on ε at δ; [T, P] -> [T]."""
        return self._saddles.chernoff_epsilons(counts, log_delta)

    def _batches(self, counts: Floats, indices: Indices) -> list[Indices]:
        """Return the batches of rows that are worth a contour."""
        steps = counts.sum(axis=1)
        if self.refinements and not self.is_thorough:  # discretised PLDs are as quick
            indices = np.where(steps < FEW_STEPS, -1, indices)
        return list(row_batches(indices, steps))

    def _contour_indices(self, index: int) -> list[int]:
        """Return the tilts of the contours to try for a saddle point, as indices."""
        second = index + SECOND_CONTOUR
        return [index, second][: 1 + (self.is_thorough and second >= MARGIN // 2)]

    def _are_below(
        self, counts: Floats, indices: Indices, epsilons: Floats, log_deltas: Floats
    ) -> npt.NDArray[np.bool_]:
        """Return which rows are proven to have a smaller δ at ε, by rough sums; [T]."""
        proven = np.zeros(len(counts), dtype=bool)
        for rows in row_batches(indices, counts.sum(axis=1), COMPARISON_OCTAVES):
            for part in np.array_split(rows, len(rows) // MAX_SUM_ROWS + 1):
                contour = self._contour(
                    counts[part],
                    int(np.median(indices[part])),
                    epsilons[part],
                    log_deltas[part],
                    tolerance=TOLERANCES.comparison_error,
                )
                if contour.is_usable:
                    point = contour.sum(epsilons[part], derivative=False)
                    proven[part] = contour.upper_bound(point) <= log_deltas[part]
        return proven

    def _refine(
        self, counts: Floats, delta: float, lower: Floats, upper: Floats
    ) -> None:
        """Narrow the bounds that do not meet, in place, by discretised PLDs.

        Of many such rows only some: ε rises with the steps, so that the bounds of the
        others follow from theirs (``ExactAccountant``).
        """
        gap = TOLERANCES.exact_gap
        rows = np.flatnonzero(~bounds_meet(np.maximum(lower, 0.0), upper, gap))
        if not len(rows):
            return
        steps = counts[rows].sum(axis=1)
        rows = rows[np.argsort(steps, kind="stable")]
        if len(rows) > MAX_PLD_ROWS:
            steps = np.sort(steps)
            spread = np.geomspace(steps[0], steps[-1], MAX_PLD_ROWS)
            some = np.searchsorted(steps, spread).clip(max=len(rows) - 1)
            rows = rows[np.unique(some)]
        cumulants = self._saddles.cumulants(counts[rows])[0]
        low, high = discretized_epsilons(
            self.losses,
            counts[rows],
            delta,
            self._saddles.tilts,
            cumulants,
            self.refinements,
            two_sided=self.two_sided,
        )
        lower[rows] = np.maximum(lower[rows], low)
        upper[rows] = np.minimum(upper[rows], high)

    def _solve(
        self, counts: Floats, index: int, guesses: Floats, log_delta: float
    ) -> RootEnclosure | None:
        """Return ε of rows that share a contour, None if the contour does not serve.

        Of many rows, those at Chebyshev nodes of the log of the steps are solved first.
        The polynomial through them is where the others begin.
        """
        heights = np.log(counts.sum(axis=1))
        are_many = len(counts) > MANY_ROWS
        nodes = chebyshev_nodes(heights) if are_many else np.arange(len(counts))
        terms = (counts[nodes], index)
        contour = self._contour(
            *terms, guesses[nodes], log_delta, sharing_rows=len(counts)
        )
        if not contour.is_usable:
            return None
        enclosure = enclose_roots(contour, guesses[nodes], log_delta)
        moves = np.abs(enclosure.roots - guesses[nodes]) * contour.tilt
        meet = bounds_meet(enclosure.lower, enclosure.upper, TOLERANCES.contour_gap)
        is_off = (moves > FAR_MOVE) | (~meet & (moves > NEAR_MOVE))
        if np.any(is_off) and np.all(np.isfinite(enclosure.roots)):
            better = self._contour(
                *terms, enclosure.roots, log_delta, sharing_rows=len(counts)
            )
            if better.is_usable:
                contour = better
                enclosure = enclose_roots(contour, enclosure.roots, log_delta)
        if are_many:
            if not bounds_meet(
                enclosure.lower, enclosure.upper, TOLERANCES.exact_gap
            ).any():
                return None
            window = alias_window(index)
            contour = contour.for_rows(counts, self._saddles.cumulants(counts, window))
            starts = interpolated(heights, nodes, enclosure.roots)
            enclosure = enclose_roots(contour, starts, log_delta)
        return enclosure

    def _contour(
        self,
        counts: Floats,
        index: int,
        epsilons: Floats,
        log_deltas: Floats | float,
        *,
        tolerance: float = TOLERANCES.sum_error,
        sharing_rows: int = 1,
    ) -> Contour:
        """Return the contour at a tilt, for sums near some ε and δ.

        Args:
            counts: Steps of each phase, [T, P].
            index: Index of the tilt.
            epsilons: ε of each row, about, [T].
            log_deltas: log δ of each row, about, [T] or ().
            tolerance: Error of aliasing, and of the cut-off, relative to δ.
            sharing_rows: Rows that will share the contour and so its MAX_TERMS.
        """
        window = alias_window(index)
        return Contour(
            self.losses,
            counts,
            self._saddles.tilts[window],
            self._saddles.cumulants(counts, window),
            index - window.start,
            epsilons,
            np.broadcast_to(log_deltas, epsilons.shape),
            min(self.max_frequencies, MAX_TERMS // max(sharing_rows, len(counts))),
            tolerance,
        )

    def log_deltas(
        self, counts: Floats, epsilons: Floats, floors: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return lower and upper bounds on log δ of one row of steps at each ε.

        Shapes: counts [P], at least 2 steps; epsilons, floors [T] -> [T], [T].

        Args:
            counts: Steps of each phase.
            epsilons: ε at which δ is asked for.
            floors: A smaller log δ is of no interest.  Rows that are proven to be below
                their floor get it as both bounds.
        """
        rows = np.broadcast_to(counts, (len(epsilons), len(counts)))
        indices, guesses = self._saddles.at_epsilon(rows, epsilons)
        lower = np.full(len(rows), -np.inf)
        upper = self._saddles.chernoff_log_deltas(rows, epsilons)
        if floors is not None:
            some = np.where(np.isfinite(floors), indices, -1)
            below = self._are_below(rows, some, epsilons, floors)
            lower[below] = upper[below] = floors[below]
            indices[below] = -1
        steps = counts.sum() * np.ones(len(rows))
        for batch in row_batches(indices, steps, tilt_span=DELTA_TILT_SPAN):
            matters = bool(np.any(upper[batch] > LEAST_LOG_DELTA))
            contours = self._contour_indices(int(np.median(indices[batch])))
            for index in contours if matters else contours[:1]:
                low, high = self._contour_log_deltas(
                    rows[batch],
                    index,
                    epsilons[batch],
                    guesses[batch],
                    sharing_rows=1 if matters else SMALL_DELTA_ROWS,
                )
                lower[batch] = np.maximum(lower[batch], low)
                upper[batch] = np.minimum(upper[batch], high)
                if np.all(upper[batch] - lower[batch] < TOLERANCES.contour_gap):
                    break
        matter = upper > LEAST_LOG_DELTA
        open_ = np.flatnonzero((upper - lower > TOLERANCES.exact_gap) & matter)
        if len(open_):
            low, high = discretized_log_deltas(
                self.losses,
                counts,
                epsilons[open_],
                self._saddles.tilts,
                self._saddles.cumulants(counts[None])[0, 0],
                self.refinements,
            )
            lower[open_] = np.maximum(lower[open_], low)
            upper[open_] = np.minimum(upper[open_], high)
        return lower, upper

    def _contour_log_deltas(
        self,
        rows: Floats,
        index: int,
        epsilons: Floats,
        guesses: Floats,
        *,
        sharing_rows: int,
    ) -> tuple[Floats, Floats]:
        """Return bounds on log δ from one contour: -infinity and 0 if it is useless."""
        contour = self._contour(
            rows, index, epsilons, guesses, sharing_rows=sharing_rows
        )
        if not contour.is_usable:
            return np.full_like(epsilons, -np.inf), np.zeros_like(epsilons)
        point = contour.sum(epsilons, derivative=False)
        logs, _ = contour.log_delta(point)
        if np.nanmax(np.abs(logs - guesses), initial=0.0) > 1.0:
            better = np.where(np.isfinite(logs), logs, guesses)
            second = self._contour(
                rows, index, epsilons, better, sharing_rows=sharing_rows
            )
            if second.is_usable:
                contour, point = second, second.sum(epsilons, derivative=False)
        low, high = contour.lower_bound(point), contour.upper_bound(point)
        return (
            np.where(np.isfinite(low), low, -np.inf),
            np.where(np.isfinite(high), np.minimum(high, 0.0), 0.0),
        )


def row_batches(
    indices: Indices,
    steps: Floats,
    octaves: float = OCTAVES,
    tilt_span: int = TILT_SPAN,
) -> Iterator[Indices]:
    """Yield batches of rows that share a contour; rows with index -1 are in none.

    The row with the fewest steps, whose transform decays most slowly, decides how many
    frequencies all rows of its batch take.

    Shapes: indices (saddle points, in the grid of tilts), steps [T].
    """
    heights = np.log2(steps)
    few = math.log2(MANY_STEPS)
    levels = np.where(steps < MANY_STEPS, heights, few + (heights - few) / octaves)
    levels = np.where(indices >= 0, np.floor(levels), -1)
    for level in np.unique(levels[levels >= 0]):
        rows = np.flatnonzero(levels == level)
        groups = (indices[rows] - indices[rows].min()) // tilt_span
        for group in np.unique(groups):
            yield rows[groups == group]


def split_in_two(rows: Indices, steps: Floats) -> list[Indices]:
    """Return the half of the rows with fewer steps, and the other half."""
    return np.array_split(rows[np.argsort(steps[rows], kind="stable")], 2)
