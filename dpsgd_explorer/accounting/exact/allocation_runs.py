"""Bounds on ε and δ of runs with random allocation, and with other steps next to it.

The curve of one epoch is bounded in ``random_allocation``.  Epochs and other steps are
composed on a grid of losses (``discretized_pld``).  The grids are refined until the
bounds meet.

Notation: R epochs and other steps with different settings, E values of ε.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.phase import AllocationPhase, Phase, StepCounts
from dpsgd_explorer.accounting.core.root_finding import ROOT_TOLERANCE, first_safe
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.discretized_pld import DiscretizedPlds
from dpsgd_explorer.accounting.exact.phases import are_within_reach, merged
from dpsgd_explorer.accounting.exact.pld_bounds import FFT_SIZES, choose_window
from dpsgd_explorer.accounting.exact.privacy_loss import (
    Direction,
    GaussianLoss,
    PrivacyCurve,
)
from dpsgd_explorer.accounting.exact.random_allocation import (
    AllocationCurve,
    Epoch,
    Grid,
    SlotSums,
)
from dpsgd_explorer.accounting.exact.step_losses import step_losses

#: Spacing of each grid of the lognormal, as a share of its width, and share of δ that
#: the largest values of the lognormal may add.  The number of points of a grid grows
#: with both: at σ = 0.6, a tenth of the share doubles it.
FINENESS = (0.4, 0.1, 0.025, 0.00625)
TAIL_SHARES = (1e-2, 1e-3, 1e-4, 1e-5)
#: Largest number of points of the grids of all sums together.
MAX_POINTS = 1 << 21
#: Index of the grids of a single answer of many, and the largest number of points of a
#: grid of that index.
QUICK_LEVEL, MAX_QUICK_POINTS = 1, 1 << 17
#: Largest number of δ that are all refined; more use the first two grids.  They share
#: at most MAX_WINDOWS grids of losses.
MAX_REFINED_DELTAS, MAX_WINDOWS = 2, 12
#: Noise multiplier below which the lognormal needs too many points.
MIN_NOISE = 0.1
#: Share of δ above which the error of doubles is too large.
MAX_ERROR_SHARE = 1e-4
#: Smallest δ for which grids are chosen.
MIN_DELTA = 1e-13
#: Tilts that are tried for the grid of losses.
TILTS = np.geomspace(0.05, 400.0, 80)
#: The directions of an added or removed record.
BOTH_DIRECTIONS: tuple[Direction, ...] = ("remove", "add")

Curves = dict[Direction, list[PrivacyCurve]]
EpochCurves = dict[Direction, AllocationCurve]
#: Upper bounds on the curves of epochs, which rows with equal epochs share.
KeptCurves = dict[Epoch, EpochCurves]


class AllocationRun:
    """A single row of steps, of which some use random allocation.

    Attributes:
        epochs: Epochs with different settings, and the number of each.
        others: Steps with other sampling, all with noise, as a single row.
    """

    def __init__(
        self,
        run: StepCounts,
        kept: KeptCurves | None = None,
        max_points: int = MAX_POINTS,
        *,
        two_sided: bool = True,
    ) -> None:
        """Divides a single row, all with noise, into epochs and other steps.

        Args:
            run: The row.
            kept: Curves for ``quick_epsilon`` that other rows share.
            max_points: Largest number of points of the grids of all sums together.
            two_sided: If True, ``epsilon_bounds`` returns a lower bound, else 0.
        """
        epochs: dict[Epoch, int] = {}
        others: list[Phase] = []
        counts = []
        for phase, count in zip(run.phases, run.counts[0].tolist(), strict=True):
            if not isinstance(phase, AllocationPhase) or phase.slots == 1:
                others.append(Phase(phase.sample_rate, phase.noise_multiplier, 0))
                counts.append(count)
                continue
            whole, rest = divmod(int(count), phase.slots)
            for done, number in ((phase.slots, whole), (rest, 1)):
                if done and number:
                    epoch = Epoch(phase.noise_multiplier, phase.slots, done)
                    epochs[epoch] = epochs.get(epoch, 0) + number
        self.epochs = list(epochs.items())
        self.others = merged(StepCounts(others, np.array([counts]), run.relation))
        self._max_points = max_points
        self._signs = (1, -1) if two_sided else (1,)
        self._imprecise: set[Epoch] = set()  # epochs for which doubles were not enough
        self._kept: tuple[Sequence[Grid], dict[int, Curves]] | None = None
        self._shared = {} if kept is None else kept

    def epsilon_bounds(
        self, delta: float, most: float, refinements: int = len(FINENESS)
    ) -> tuple[float, float]:
        """Returns lower and upper bounds on ε, refined until they meet.

        Args:
            delta: In (0, 1).
            most: An upper bound on ε.
            refinements: Largest number of grids.
        """
        lower, upper = 0.0, most
        for level, points in enumerate(FFT_SIZES[:refinements]):
            curves = self._curves_of(level, delta)
            if curves is None:
                break
            bounds = {
                sign: max(
                    self._epsilon(curve, sign, delta, most, lower, points)
                    for curve in by_direction.values()
                )
                for sign, by_direction in curves.items()
            }
            lower, upper = max(lower, bounds.get(-1, 0.0)), min(upper, bounds[1])
            if upper - lower <= TOLERANCES.discretized_gap * upper:
                break
        return min(lower, upper), upper

    def quick_epsilon(self, delta: float, most: float) -> float:
        """Returns an upper bound on ε from one grid of middle size.

        Args:
            delta: In (0, 1).
            most: An upper bound on ε.
        """
        if not self.is_within_reach:
            return most
        share = delta / max(self._number, 1)
        of_epochs = []
        for epoch, _ in self.epochs:
            if epoch not in self._shared:
                grid = self._grid(epoch, QUICK_LEVEL, share)
                if grid.period > MAX_QUICK_POINTS:
                    grid = self._grid(epoch, 0, share)
                if grid.period > self._max_points:
                    return most
                self._shared[epoch] = epoch_curves(
                    epoch, grid, 1, share, self._imprecise
                )
            of_epochs.append(self._shared[epoch])
        curves = self._with_others(of_epochs)
        points = FFT_SIZES[QUICK_LEVEL]
        bounds = [
            self._epsilon(curves[direction], 1, delta, most, 0.0, points)
            for direction in BOTH_DIRECTIONS
        ]
        return min(max(bounds), most)

    def directed_log_deltas(
        self, epsilons: Floats, most: Floats
    ) -> list[tuple[Floats, Floats]]:
        """Returns bounds on log δ at each ε >= 0, in each of BOTH_DIRECTIONS.

        Args:
            epsilons: Values of ε, [E].
            most: Upper bounds on log δ, [E].
        """
        least = math.log(MIN_DELTA)
        lower, upper = np.full((2, len(epsilons)), -np.inf), np.array([most, most])
        order = np.argsort(epsilons)
        sizes = FFT_SIZES if len(epsilons) <= MAX_REFINED_DELTAS else FFT_SIZES[:2]
        for level, points in enumerate(sizes):
            is_wide = upper - lower > TOLERANCES.discretized_gap
            if not is_wide.any():
                break
            smallest = max(float(upper[is_wide].min()), least)
            curves = self._curves_of(level, math.exp(smallest))
            if curves is None:
                break
            for i, direction in enumerate(BOTH_DIRECTIONS):
                for part in np.array_split(order, min(len(order), MAX_WINDOWS)):
                    wide = part[is_wide[i, part]]
                    if not len(wide):
                        continue
                    delta = math.exp(max(float(upper[i, wide].min()), least))
                    terms = (epsilons[wide], delta, points)
                    low, high = (
                        self._log_deltas(curves[sign][direction], sign, *terms)
                        for sign in (-1, 1)
                    )
                    upper[i, wide] = np.minimum(upper[i, wide], high)
                    lower[i, wide] = np.maximum(lower[i, wide], low)
                    lower[i] = np.minimum(lower[i], upper[i])
        return list(zip(lower, upper, strict=True))

    @property
    def _is_single(self) -> bool:
        """True for a single epoch, whose curve needs no composition."""
        return self._number == 1 and not self.others.counts.any()

    @property
    def _number(self) -> int:
        return sum(count for _, count in self.epochs)

    @property
    def _counts(self) -> Floats:
        """Numbers of the epochs and of the other steps with different settings, [R]."""
        sampled = self.others.counts[0][self._is_sampled]
        gaussians = [1.0] if self._gaussian is not None else []
        counts = [float(count) for _, count in self.epochs]
        return np.array([*counts, *sampled, *gaussians])

    @property
    def _is_sampled(self) -> list[bool]:
        return [phase.sample_rate < 1 for phase in self.others.phases]

    @property
    def _gaussian(self) -> GaussianLoss | None:
        """The loss of all steps on all records, which are one Gaussian step."""
        roots = [
            math.sqrt(count) / phase.noise_multiplier
            for phase, count in zip(
                self.others.phases, self.others.counts[0].tolist(), strict=True
            )
            if phase.sample_rate == 1
        ]
        return GaussianLoss(math.hypot(*roots)) if roots else None

    @property
    def is_within_reach(self) -> bool:
        """If False, no grid is fine enough."""
        noise = [epoch.noise_multiplier for epoch, _ in self.epochs]
        return min(noise, default=1.0) >= MIN_NOISE and are_within_reach(self.others)

    def _curves_of(self, level: int, delta: float) -> dict[int, Curves] | None:
        """Returns bounds on the curves in each direction, by sign.

        If a grid of W needs too many points, the finest grid that does not is used; a
        finer grid of losses may still narrow the bounds on a composition.

        Args:
            level: Index of the fineness.
            delta: About the δ of interest.

        Returns:
            None if a grid needs too many points, or the bounds would be equal to those
            of an earlier level.
        """
        if not self.is_within_reach:
            return None
        share = delta / max(self._number, 1)
        for finest in range(level, -1, -1):
            grids = [self._grid(epoch, finest, share) for epoch, _ in self.epochs]
            if sum(grid.period for grid in grids) <= self._max_points:
                break
        else:
            return None
        if finest < level and self._is_single:
            return None
        if self._kept is None or self._kept[0] != grids:
            self._kept = None  # frees the memory of the coarser curves
            curves = {sign: self._curves(grids, sign, share) for sign in self._signs}
            self._kept = (grids, curves)
        return self._kept[1]

    @staticmethod
    def _grid(epoch: Epoch, level: int, share: float) -> Grid:
        return epoch.grid(FINENESS[level], TAIL_SHARES[level] * share)

    def _curves(self, grids: Sequence[Grid], sign: int, share: float) -> Curves:
        return self._with_others(
            [
                epoch_curves(epoch, grid, sign, share, self._imprecise)
                for (epoch, _), grid in zip(self.epochs, grids, strict=True)
            ]
        )

    def _with_others(self, of_epochs: Sequence[EpochCurves]) -> Curves:
        """Returns the curves of epochs and of the other steps, in each direction."""
        curves: Curves = {}
        gaussian = self._gaussian
        sampled = [x for x in self.others.phases if x.sample_rate < 1]
        for direction in BOTH_DIRECTIONS:
            losses = step_losses(sampled, direction, self.others.relation)
            curves[direction] = [x[direction] for x in of_epochs]
            curves[direction] += [*losses, *([gaussian] if gaussian else [])]
        return curves

    def _epsilon(
        self,
        curves: Sequence[PrivacyCurve],
        sign: int,
        delta: float,
        most: float,
        least: float,
        points: int,
    ) -> float:
        """Returns a bound on ε in one direction; ``most`` or 0 without a bound."""
        if self._is_single:
            return _single_epsilon(curves[0], sign, delta, most)
        plds = self._plds(curves, delta, np.array([least]), points)
        if plds is None:
            return most if sign > 0 else 0.0
        tail = plds.upper_tail if sign > 0 else plds.lower_tail
        return tail(self._counts).epsilon(delta)

    def _log_deltas(
        self,
        curves: Sequence[PrivacyCurve],
        sign: int,
        epsilons: Floats,
        delta: float,
        points: int,
    ) -> Floats:
        """Returns bounds on log δ at each ε; 0 or -infinity without a bound; [E]."""
        if self._is_single:
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(curves[0].deltas(epsilons)))
        plds = self._plds(curves, delta, epsilons, points)
        if plds is None:
            return np.full(len(epsilons), 0.0 if sign > 0 else -math.inf)
        tail = (plds.upper_tail if sign > 0 else plds.lower_tail)(self._counts)
        return np.array([tail.log_delta(epsilon) for epsilon in epsilons.tolist()])

    def _plds(
        self,
        curves: Sequence[PrivacyCurve],
        delta: float,
        epsilons: Floats,
        points: int,
    ) -> DiscretizedPlds | None:
        counts = np.tile(self._counts, (len(epsilons), 1))
        no_cumulants = np.full((len(epsilons), len(TILTS)), np.inf)
        window = choose_window(curves, counts, delta, epsilons, TILTS, no_cumulants)
        plds = DiscretizedPlds(curves, window, points)
        return plds if plds.is_usable else None


def epoch_curves(
    epoch: Epoch, grid: Grid, sign: int, delta: float, imprecise: set[Epoch]
) -> EpochCurves:
    """Returns bounds on the curves of an epoch, for about delta.

    Args:
        epoch: The epoch.
        grid: Points for W and for the sum.
        sign: 1 for upper bounds, -1 for lower bounds.
        delta: About the δ of interest.
        imprecise: Epochs for which doubles were not enough; extended in place.
    """
    sums = SlotSums(epoch, grid, sign)
    if epoch not in imprecise:
        curves = sums.curves()
        if max(curve.error for curve in curves.values()) <= MAX_ERROR_SHARE * delta:
            return curves
        imprecise.add(epoch)
    return sums.curves(long_double=True)


def _single_epsilon(curve: PrivacyCurve, sign: int, delta: float, most: float) -> float:
    """Returns the ε at which the bound on δ is delta, on the safe side."""

    def excess(epsilon: float) -> float:
        return float(curve.deltas(np.array([epsilon]))[0]) - delta

    if excess(0.0) <= 0:
        return 0.0
    if excess(most) > 0:
        return most
    root = first_safe(excess, 0.0, most, ROOT_TOLERANCE)
    return root if sign > 0 else max(root - 4 * ROOT_TOLERANCE * (1 + root), 0.0)
