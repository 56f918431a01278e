"""The exact accountant bounds the true ε from below and above, and reports the upper.

| run | method |
|---|---|
| no step; no noise | ε = 0; ε = infinity |
| steps on all records, q = 1 | closed form (``core.gaussian``) |
| one step on a sample | closed form (``single_step``) |
| several steps, mixtures of settings too | contour integral (``contour``) |
| several steps that need too many frequencies | discretised PLDs (``pld_bounds``) |
| sample rates and noise out of reach of both | fallback bounds (``fallback_bounds``) |
| random allocation, with other steps too | discretised PLDs (``allocation_runs``) |

For an added or removed record both directions are computed, and the larger ε is
reported.  If the lower and the upper bound do not meet within ``Tolerances.exact_gap``,
the upper bound still holds, and the answer's status is "bound".

Notation: P phases, S rows of steps, E values of ε.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import (
    Accountant,
    Floats,
    Phase,
    Status,
)
from dpsgd_explorer.accounting.core.intervals import Interval, intervals, meet
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import StepCounts, has_slots
from dpsgd_explorer.accounting.core.tolerances import MAX_EXPONENT, TOLERANCES
from dpsgd_explorer.accounting.core.trade_off import (
    DELTAS,
    EPSILON_SHARES,
    enclosed_rates,
)
from dpsgd_explorer.accounting.exact.allocation_rows import (
    at_parts_of_epochs,
    has_sampled_epochs,
    quick_epsilons,
    with_known_slots,
)
from dpsgd_explorer.accounting.exact.allocation_runs import MAX_POINTS, AllocationRun
from dpsgd_explorer.accounting.exact.composition import Composition
from dpsgd_explorer.accounting.exact.contour import MAX_FREQUENCIES
from dpsgd_explorer.accounting.exact.fallback_bounds import (
    fallback_bounds,
    fallback_deltas,
    total_variations,
)
from dpsgd_explorer.accounting.exact.phase_by_phase import epsilon_phase_by_phase
from dpsgd_explorer.accounting.exact.phases import (
    are_within_reach,
    closed_delta,
    closed_epsilon,
    merged,
    monotone_bounds,
    needs_composition,
    revealed_probability,
    single_sampled_step,
)
from dpsgd_explorer.accounting.exact.pld_bounds import MAX_REFINEMENTS
from dpsgd_explorer.accounting.exact.privacy_loss import Direction
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS, step_losses

#: Relative gap of the bounds above which phases are bounded one by one.
MAX_RELATIVE_GAP = 1e-3
#: Number of rows whose phases are bounded one by one, which takes up to a second each.
MAX_ROWS_BY_PHASE = 1
#: Largest number of rows with random allocation that are all refined.  Of more rows,
#: only the longest is refined.
MAX_REFINED_ROWS = 4


class ExactAccountant(Accountant):
    """Evaluates the privacy curve of the composition itself, with error bounds."""

    name = "exact"
    status: ClassVar[Status] = "exact"
    counts_truncated_batches = True
    counts_slots = True
    max_rows = 50_001  # rows tighten each other, so that few parts are better

    def __init__(
        self,
        refinements: int = MAX_REFINEMENTS,
        max_directions: int = 2,
        max_frequencies: int = MAX_FREQUENCIES,
        *,
        two_sided: bool = True,
        max_points: int = MAX_POINTS,
    ) -> None:
        """Limits the work of an answer.

        Args:
            refinements: Largest number of grids of discretised PLDs.
            max_directions: Directions that are computed; with 1 of 2 the answer is no
                upper bound.
            max_frequencies: Largest number of frequencies of a contour.
            two_sided: If True, discretised PLDs give lower bounds on ε as well.
            max_points: Largest number of points of the grids for random allocation.
        """
        self.refinements = refinements
        self.max_directions = max_directions
        self.max_frequencies = max_frequencies
        self.two_sided = two_sided
        self.max_points = max_points

    def searchers(self, relation: NeighboringRelation) -> tuple[ExactAccountant, ...]:
        number = len(DIRECTIONS[relation])
        return tuple(ExactAccountant(1, count) for count in range(1, number + 1))

    def _epsilons(self, run: StepCounts, delta: float) -> Floats:
        return self.epsilon_bounds(run, delta)[1]

    def _delta(self, run: StepCounts, epsilon: float) -> float:
        return float(self._delta_bounds(run, np.array([epsilon]))[1][0])

    def _intervals(self, run: StepCounts, delta: float) -> list[Interval]:
        return intervals(*self.epsilon_bounds(run, delta))

    def delta_bounds(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        run = StepCounts.whole(phases, relation)
        at = validation.numbers("epsilon", epsilons)
        return intervals(*self._delta_bounds(run, at))

    def trade_off(
        self,
        phases: Sequence[Phase],
        false_positive_rates: Floats,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        """Returns the interval of the largest true positive rate at each rate; [F].

        If some steps have no noise, a test sees the record with the probability that it
        joins one of these steps.
        """
        if revealed := revealed_probability(phases):
            reached = (revealed + (1 - revealed) * false_positive_rates).tolist()
            status: Status = "exact" if revealed == 1 else "bound"
            return [Interval(1.0, rate, 1.0, status) for rate in reached]
        total = sum(phase.steps for phase in phases)
        top = float(self.epsilons(phases, [total], DELTAS[0], relation)[0])
        # δ at 48 ε costs little more than δ at one.
        epsilons = min(top, MAX_EXPONENT) * EPSILON_SHARES
        curves = self.directed_deltas(phases, epsilons.tolist(), relation)
        lower, upper = enclosed_rates(
            false_positive_rates, epsilons, curves[0], curves[-1]
        )
        pairs = zip(lower.tolist(), upper.tolist(), strict=True)
        return [Interval(high, low, high, "bound") for low, high in pairs]

    def directed_deltas(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[tuple[Floats, Floats]]:
        """Returns bounds on δ of all phases at each ε >= 0, per direction.

        Returns:
            Lower and upper bounds, [E] and [E], for each of the relation's DIRECTIONS.
        """
        at = np.asarray(epsilons, dtype=float)
        if has_slots(phases):
            return self._allocated_deltas(StepCounts.whole(phases, relation), at)
        run = merged(StepCounts.whole(phases, relation))
        directions = DIRECTIONS[relation]
        is_reached = are_within_reach(run)
        only = single_sampled_step(run)
        if only is not None and is_reached:
            losses = [step_losses([only], x, relation)[0] for x in directions]
            curves = [np.maximum(loss.deltas(at), 0.0) for loss in losses]
            return [(curve * (1 - TOLERANCES.closed_form), curve) for curve in curves]
        if not is_reached or not needs_composition(run)[0]:
            lower, upper = self._delta_bounds(run, at)
            # The lower bound holds for the larger direction only.
            lower = lower if only is None else np.zeros_like(at)
            return [(lower, upper)] * len(directions)
        logs = [
            self._composition(run, direction).log_deltas(run.counts[0], at)
            for direction in directions
        ]
        return [(np.exp(low), np.exp(high)) for low, high in logs]

    def _composition(self, run: StepCounts, direction: Direction) -> Composition:
        return Composition(
            step_losses(run.phases, direction, run.relation),
            self.refinements,
            self.max_frequencies,
            two_sided=self.two_sided,
        )

    def epsilon_bounds(self, run: StepCounts, delta: float) -> tuple[Floats, Floats]:
        """Returns lower and upper bounds on ε of each row; [S], [S]."""
        if has_slots(run.phases):
            return self._allocated_epsilons(run, delta)
        run = merged(run)
        lower, upper = np.zeros((2, len(run)))
        is_composed = needs_composition(run)
        for row in np.flatnonzero(~is_composed):  # rows with a closed form
            upper[row] = closed_epsilon(run.rows([row]), delta)
            lower[row] = upper[row] * (1 - TOLERANCES.closed_form)
        rows = np.flatnonzero(is_composed)
        composed = merged(run.rows(rows))  # all of them with noise
        # Total variations add up at most: if their sum is within δ, then ε = 0.
        is_positive = composed.counts @ total_variations(composed) > delta
        rows, composed = rows[is_positive], composed.rows(is_positive)
        if len(rows):
            lower[rows], upper[rows] = self._composed_epsilons(composed, delta)
        return monotone_bounds(run.counts, lower, upper)

    def _composed_epsilons(
        self, run: StepCounts, delta: float
    ) -> tuple[Floats, Floats]:
        """Returns bounds on ε of rows without a closed form; [S], [S]."""
        if not are_within_reach(run):
            return fallback_bounds(run, delta)
        counts = run.counts
        lower, upper, chernoff = np.zeros((3, len(run)))
        log_delta = math.log(delta)
        for direction in DIRECTIONS[run.relation][: self.max_directions]:
            composition = self._composition(run, direction)
            rows, floors = np.arange(len(counts)), None
            if (
                direction == "add"
            ):  # nearly always smaller, as Chernoff's bound may prove
                bounds = composition.chernoff_epsilons(counts, log_delta)
                rows = np.flatnonzero(bounds > upper)
                floors = upper[rows]
            if not len(rows):
                continue
            low, high = composition.epsilons(counts[rows], delta, floors)
            is_larger = high > upper[rows]
            larger = rows[is_larger]
            lower[larger] = np.maximum(lower[larger], low[is_larger])
            upper[larger] = high[is_larger]
            chernoff[larger] = composition.chernoff_epsilons(counts[larger], log_delta)
        wide = np.flatnonzero(~meet(lower, upper))
        if not self.two_sided:  # an upper bound below Chernoff's has been refined
            wide = wide[upper[wide] >= chernoff[wide]]
        if len(wide) and self.refinements:
            low, high = fallback_bounds(run.rows(wide), delta)
            lower[wide] = np.maximum(lower[wide], low)
            upper[wide] = np.minimum(upper[wide], high)
        if self.refinements == MAX_REFINEMENTS:
            self._compose_by_phase(run, delta, lower, upper)
        # Round-off of a large ε may make the bounds cross.
        is_ordered = np.all(lower <= upper * (1 + TOLERANCES.crossing))
        assert is_ordered, "the lower bound on ε exceeds the upper one"
        return np.minimum(lower, upper), np.maximum(lower, upper)

    def _compose_by_phase(
        self, run: StepCounts, delta: float, lower: Floats, upper: Floats
    ) -> None:
        """Narrows the bounds of the last rows with a large gap, in place."""
        with np.errstate(invalid="ignore"):
            rows = np.flatnonzero(~(upper - lower <= MAX_RELATIVE_GAP * upper))
        for row in rows[-MAX_ROWS_BY_PHASE:]:
            done = zip(run.phases, run.counts[row], strict=True)
            phases = [replace(phase, steps=int(n)) for phase, n in done if n]
            terms = (phases, delta, run.relation, float(upper[row]))
            low, high = epsilon_phase_by_phase(self, *terms)
            lower[row], upper[row] = max(lower[row], low), min(upper[row], high)

    def _delta_bounds(self, run: StepCounts, at: Floats) -> tuple[Floats, Floats]:
        """Returns bounds on δ of the only row at each ε >= 0; [E] -> [E], [E]."""
        if has_slots(run.phases):
            curves = self._allocated_deltas(run, at)
            lower, upper = (
                np.max(bounds, axis=0) for bounds in zip(*curves, strict=True)
            )
            return lower, upper
        run = merged(run)
        if not needs_composition(run)[0]:
            deltas = np.array([closed_delta(run, float(x)) for x in at], dtype=float)
            return deltas * (1 - TOLERANCES.closed_form), deltas
        if not are_within_reach(run):
            return np.zeros(len(at)), fallback_deltas(run, at)
        lower, upper = np.full((2, len(at)), -np.inf)  # of log δ
        for direction in DIRECTIONS[run.relation][: self.max_directions]:
            composition = self._composition(run, direction)
            floors = lower if direction == "add" else None
            low, high = composition.log_deltas(run.counts[0], at, floors)
            lower, upper = np.maximum(lower, low), np.maximum(upper, high)
        return np.exp(lower), np.exp(upper)

    def _allocated_epsilons(
        self, run: StepCounts, delta: float
    ) -> tuple[Floats, Floats]:
        """Returns bounds on ε of each row with random allocation; [S], [S]."""
        known = self.epsilon_bounds(with_known_slots(run), delta)
        if not has_sampled_epochs(run):
            return known
        lower, upper = np.where(np.isinf(known[1]), np.inf, 0.0), known[1]
        rows = list(range(len(run)))
        if len(run) > MAX_REFINED_ROWS:
            upper = quick_epsilons(at_parts_of_epochs(run), delta, upper)
            rows = [int(run.counts.sum(axis=1).argmax())]
        for row in rows:
            if 0 < upper[row] < math.inf:
                steps = AllocationRun(
                    run.rows([row]),
                    max_points=self.max_points,
                    two_sided=self.two_sided,
                )
                lower[row], upper[row] = steps.epsilon_bounds(
                    delta, float(upper[row]), self.refinements
                )
        return monotone_bounds(run.counts, lower, upper)

    def _allocated_deltas(
        self, run: StepCounts, at: Floats
    ) -> list[tuple[Floats, Floats]]:
        """Returns bounds on δ of the only row at each ε, in each direction; [E]."""
        low, high = self._delta_bounds(with_known_slots(run), at)
        if not has_sampled_epochs(run) or (high >= 1).all():
            return [(low, high)] * 2
        with np.errstate(divide="ignore"):
            most = np.log(high)
        steps = AllocationRun(run, max_points=self.max_points)
        logs = steps.directed_log_deltas(at, most)
        return [(np.exp(lower), np.exp(upper)) for lower, upper in logs]


class GlwAccountant(ExactAccountant):
    """The accountant named "glw" in other tools: the exact accountant's upper bound.

    In other tools it is a discretised PLD, composed by Fourier transforms, whose upper
    bound exceeds the true ε by a chosen error of 0.01 to 0.1.  The exact accountant
    bounds ε from above more tightly and in less time.

    Source: Gopi, Lee and Wutschitz (2021), "Numerical Composition of Differential
    Privacy", arXiv:2106.02848v3.
    """

    name = "glw"
    status: ClassVar[Status] = "bound"
    counts_truncated_batches = False
    counts_slots = False
    # One-sided intervals.
    _intervals, delta_bounds = Accountant._intervals, Accountant.delta_bounds
    trade_off = Accountant.trade_off
