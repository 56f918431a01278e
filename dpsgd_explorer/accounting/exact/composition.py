"""Bounds on ε at δ, and on δ at ε, of a composition in one direction.

Any tilt c > 0 gives a contour; c decides how fast its sum converges and how many digits
cancel.  Rows with neighbouring saddle points and similar numbers of steps share a
contour.  A second contour is tried where the bounds of the first do not meet, and
discretised PLDs where no contour is usable.

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
    MAX_FREQUENCIES,
    SLOW_DECAY_STEPS,
    Contour,
)
from dpsgd_explorer.accounting.exact.pld_bounds import (
    MAX_REFINEMENTS,
    discretized_epsilons,
    discretized_log_deltas,
    upper_deltas,
)
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyLoss
from dpsgd_explorer.accounting.exact.root_enclosure import (
    RootEnclosure,
    bounds_meet,
    enclose_roots,
)
from dpsgd_explorer.accounting.exact.saddle_points import (
    MIN_MARGIN,
    Indices,
    SaddlePoints,
    alias_window,
)

#: Index of the second contour's tilt, relative to the first contour's.
SECOND_CONTOUR_OFFSET = -3
#: Number of neighbouring tilts whose rows share a contour: for several numbers of
#: steps, and for several ε after one number of steps.
TILT_SPAN, DELTA_TILT_SPAN = 9, 4
#: Octaves of steps (powers of 2) in one batch of rows, from MIN_OCTAVES_STEPS steps on,
#: and for sums that are only compared.  Below MIN_OCTAVES_STEPS, a batch is one octave.
BATCH_OCTAVES, COMPARISON_OCTAVES = 2.0, 4.0
MIN_OCTAVES_STEPS = 16
#: Distance of a root from the point for which its contour was built, in units of log δ.
#: Above MAX_CLOSE_MOVE the contour is built again if the bounds do not meet, and above
#: MAX_MOVE in any case.
MAX_CLOSE_MOVE, MAX_MOVE = 0.1, 2.0
#: Log of the smallest δ for which a contour may have many frequencies.
MIN_LOG_DELTA = -60.0
#: Rows with which a smaller δ shares its frequencies: the more rows, the fewer.
SMALL_DELTA_ROWS = 256
#: Largest number of rows for which discretised PLDs are composed.
MAX_PLD_ROWS = 64
#: Number of rows above which some rows are solved first, to guess ε of the others.
MAX_DIRECT_ROWS = 36
#: Splits of batches for which no contour is usable.
MAX_SPLITS = 3
#: Largest number of rows of a batch that is not split.
MAX_UNSPLIT_ROWS = 3
#: Rows of one sum, and its terms over all rows.
MAX_SUM_ROWS, MAX_TERMS = 512, 1 << 18


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
        """Evaluates the cumulants around tilt 1.

        Args:
            losses: Privacy loss of one step of each phase.
            refinements: Largest number of grids of discretised PLDs.
            max_frequencies: Largest number of frequencies of a contour.  Below
                MAX_FREQUENCIES, one contour is tried, and none after few steps.
            two_sided: If True, discretised PLDs give lower bounds on ε as well.
        """
        self.losses = losses
        self.max_frequencies = max_frequencies
        self.is_thorough = max_frequencies == MAX_FREQUENCIES
        self.refinements, self.two_sided = refinements, two_sided
        self._saddles = SaddlePoints(losses)

    def epsilons(
        self, counts: Floats, delta: float, floors: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Returns lower and upper bounds on ε at delta after each row of steps.

        Shapes: counts [T, P], at least 2 steps per row; floors [T] -> [T], [T].

        Args:
            counts: Steps of each phase.
            delta: In (0, 1).
            floors: Smallest ε of interest of each row.  Rows with an ε that is proven
                to be smaller get the floor as both bounds.

        Returns:
            Real numbers, possibly negative.  The upper bound is at most Chernoff's
            bound; the lower bound is -infinity where none was proven.
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
            is_solved = False
            for index in self._contour_indices(int(np.median(indices[rows]))):
                for part in np.array_split(rows, len(rows) // MAX_SUM_ROWS + 1):
                    enclosure = self._solve(
                        counts[part], index, guesses[part], log_delta
                    )
                    if enclosure is not None:
                        is_solved = True
                        lower[part] = np.maximum(lower[part], enclosure.lower)
                        upper[part] = np.minimum(upper[part], enclosure.upper)
                meet = bounds_meet(lower[rows], upper[rows], TOLERANCES.contour_gap)
                rows = rows[~meet]
                if not len(rows):
                    break
            is_splittable = len(batch) > MAX_UNSPLIT_ROWS and splits < MAX_SPLITS
            if not is_solved and is_splittable:
                splits += 1
                batches += split_in_two(batch, counts.sum(axis=1))
        self._refine(counts, delta, lower, upper)
        return lower, np.minimum(upper, self.chernoff_epsilons(counts, log_delta))

    def chernoff_epsilons(self, counts: Floats, log_delta: float) -> Floats:
        """Returns Chernoff's upper bounds on ε at δ; [T, P] -> [T]."""
        return self._saddles.chernoff_epsilons(counts, log_delta)

    def _batches(self, counts: Floats, indices: Indices) -> list[Indices]:
        """Returns the batches of rows that are worth a contour."""
        steps = counts.sum(axis=1)
        if self.refinements and not self.is_thorough:  # discretised PLDs are as fast
            indices = np.where(steps < SLOW_DECAY_STEPS, -1, indices)
        return list(row_batches(indices, steps))

    def _contour_indices(self, index: int) -> list[int]:
        """Returns the tilts of the contours to try for a saddle point, as indices."""
        second = index + SECOND_CONTOUR_OFFSET
        return [index, second][: 1 + (self.is_thorough and second >= MIN_MARGIN // 2)]

    def _are_below(
        self, counts: Floats, indices: Indices, epsilons: Floats, log_deltas: Floats
    ) -> npt.NDArray[np.bool_]:
        """Returns True for rows proven to have a smaller δ at ε, by rough sums; [T]."""
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
        """Narrows the bounds that do not meet, in place, by discretised PLDs.

        At most MAX_PLD_ROWS rows are narrowed: ε rises with the steps, so these rows
        bound the others too (``ExactAccountant``).
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
            chosen = np.searchsorted(steps, spread).clip(max=len(rows) - 1)
            rows = rows[np.unique(chosen)]
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
        """Returns ε of rows that share a contour, None if the contour is not usable.

        If there are more than MAX_DIRECT_ROWS rows, the rows at Chebyshev nodes of the
        log of the steps are solved first.  The polynomial through their ε gives the
        first guesses for all rows.
        """
        heights = np.log(counts.sum(axis=1))
        is_interpolated = len(counts) > MAX_DIRECT_ROWS
        nodes = chebyshev_nodes(heights) if is_interpolated else np.arange(len(counts))
        terms = (counts[nodes], index)
        contour = self._contour(
            *terms, guesses[nodes], log_delta, sharing_rows=len(counts)
        )
        if not contour.is_usable:
            return None
        enclosure = enclose_roots(contour, guesses[nodes], log_delta)
        moves = np.abs(enclosure.roots - guesses[nodes]) * contour.tilt
        meet = bounds_meet(enclosure.lower, enclosure.upper, TOLERANCES.contour_gap)
        is_off = (moves > MAX_MOVE) | (~meet & (moves > MAX_CLOSE_MOVE))
        if np.any(is_off) and np.all(np.isfinite(enclosure.roots)):
            better = self._contour(
                *terms, enclosure.roots, log_delta, sharing_rows=len(counts)
            )
            if better.is_usable:
                contour = better
                enclosure = enclose_roots(contour, enclosure.roots, log_delta)
        if is_interpolated:
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
        """Returns the contour at a tilt, for sums near some ε and δ.

        Args:
            counts: Steps of each phase, [T, P].
            index: Index of the tilt.
            epsilons: About ε of each row, [T].
            log_deltas: About log δ of each row, [T] or ().
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
        """Returns lower and upper bounds on log δ of one row of steps at each ε.

        Shapes: counts [P], at least 2 steps; epsilons, floors [T] -> [T], [T].

        Args:
            counts: Steps of each phase.
            epsilons: ε at which δ is computed.
            floors: Smallest log δ of interest at each ε.  Where log δ is proven to be
                smaller, both bounds are the floor.
        """
        rows = np.broadcast_to(counts, (len(epsilons), len(counts)))
        indices, guesses = self._saddles.at_epsilon(rows, epsilons)
        lower = np.full(len(rows), -np.inf)
        upper = self._saddles.chernoff_log_deltas(rows, epsilons)
        if floors is not None:
            compared = np.where(np.isfinite(floors), indices, -1)
            below = self._are_below(rows, compared, epsilons, floors)
            lower[below] = upper[below] = floors[below]
            indices[below] = -1
        steps = counts.sum() * np.ones(len(rows))
        for batch in row_batches(indices, steps, tilt_span=DELTA_TILT_SPAN):
            is_large = bool(np.any(upper[batch] > MIN_LOG_DELTA))
            contours = self._contour_indices(int(np.median(indices[batch])))
            for index in contours if is_large else contours[:1]:
                low, high = self._contour_log_deltas(
                    rows[batch],
                    index,
                    epsilons[batch],
                    guesses[batch],
                    sharing_rows=1 if is_large else SMALL_DELTA_ROWS,
                )
                lower[batch] = np.maximum(lower[batch], low)
                upper[batch] = np.minimum(upper[batch], high)
                if np.all(upper[batch] - lower[batch] < TOLERANCES.contour_gap):
                    break
        has_gap = upper - lower > TOLERANCES.exact_gap
        wide = np.flatnonzero(has_gap & (upper > MIN_LOG_DELTA))
        if len(wide):
            low, high = discretized_log_deltas(
                self.losses,
                counts,
                epsilons[wide],
                self._saddles.tilts,
                self._saddles.cumulants(counts[None])[0, 0],
                self.refinements,
            )
            lower[wide] = np.maximum(lower[wide], low)
            upper[wide] = np.minimum(upper[wide], high)
        return lower, upper

    def upper_deltas(
        self, counts: Floats, epsilons: Floats, delta: float, least: float
    ) -> Floats:
        """Returns upper bounds on δ of one row at many ε, from one discretised PLD.

        Shapes: counts [P], epsilons [T] -> [T].

        Args:
            counts: Steps of each phase.
            epsilons: ε at which δ is bounded.
            delta: Smallest δ of interest: below it, the bounds are wide.
            least: About ε at this δ, or less.
        """
        rows = np.broadcast_to(counts, (len(epsilons), len(counts)))
        chernoff = np.exp(self._saddles.chernoff_log_deltas(rows, epsilons))
        saddles = self._saddles
        cumulants = saddles.cumulants(counts[None])[0, 0]
        terms = (counts, epsilons, delta, least, saddles.tilts, cumulants)
        return np.minimum(upper_deltas(self.losses, *terms), chernoff)

    def _contour_log_deltas(
        self,
        rows: Floats,
        index: int,
        epsilons: Floats,
        guesses: Floats,
        *,
        sharing_rows: int,
    ) -> tuple[Floats, Floats]:
        """Returns bounds on log δ from a contour: -infinity and 0 if it is unusable."""
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
    octaves: float = BATCH_OCTAVES,
    tilt_span: int = TILT_SPAN,
) -> Iterator[Indices]:
    """Yields batches of rows that share a contour; rows with index -1 are left out.

    The row with the fewest steps, whose transform decays most slowly, decides the
    number of frequencies of all rows of a batch.

    Shapes: indices (saddle points, in the grid of tilts), steps [T].
    """
    heights = np.log2(steps)
    first = math.log2(MIN_OCTAVES_STEPS)
    wide = first + (heights - first) / octaves
    levels = np.where(steps < MIN_OCTAVES_STEPS, heights, wide)
    levels = np.where(indices >= 0, np.floor(levels), -1)
    for level in np.unique(levels[levels >= 0]):
        rows = np.flatnonzero(levels == level)
        groups = (indices[rows] - indices[rows].min()) // tilt_span
        for group in np.unique(groups):
            yield rows[groups == group]


def split_in_two(rows: Indices, steps: Floats) -> list[Indices]:
    """Returns the half of the rows with fewer steps, and the other half."""
    return np.array_split(rows[np.argsort(steps[rows], kind="stable")], 2)
