"""The exact accountant: two sides of the true ε, the upper one reported.

| run | how |
|---|---|
| no step; no noise | 0; infinity |
| every record in every step (q = 1) | closed form (``gaussian``) |
| one step | closed form (``single_step``) |
| all others, also mixtures of settings | contour integral (``contour``) |
| those that need too many frequencies | discrete losses (``lattice``) |

For neighbours that differ by an added or removed record, both directions are computed
and the larger is reported.  Where the two sides do not meet within ``GAP``, the upper
one is still a bound, and the answer's status says that it is no more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import (
    Accountant,
    Floats,
    Phase,
    Status,
    different,
    steps_by_phase,
)
from dpsgd_explorer.accounting.core.intervals import Interval, intervals, meet
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase_limits import TRADE_OFF, check_count
from dpsgd_explorer.accounting.core.preview import Preview
from dpsgd_explorer.accounting.core.trade_off import (
    DELTAS,
    LARGEST,
    SPREAD,
    enclosed_rates,
)
from dpsgd_explorer.accounting.exact.composition import Composition
from dpsgd_explorer.accounting.exact.contour import MAX_FREQUENCIES
from dpsgd_explorer.accounting.exact.fallback_bounds import (
    ROUNDING,
    crude,
    crude_deltas,
    crude_epsilons,
    done_phases,
    variations,
)
from dpsgd_explorer.accounting.exact.phases import (
    closed_delta,
    closed_epsilon,
    merged,
    phase_work,
    revealed,
    sampled_step,
    within_reach,
    without_closed_form,
)
from dpsgd_explorer.accounting.exact.pld_bounds import MAX_REFINEMENTS
from dpsgd_explorer.accounting.exact.privacy_loss import Direction, PrivacyLoss
from dpsgd_explorer.accounting.exact.step_losses import step_losses

FEW_FREQUENCIES = 1 << 9  # that take a few milliseconds
CROSSED = 1e-8  # relative, by which sides may cross from the round-off of a large ε
NARROWED = 8  # steps of a preview whose ε is found by discrete losses
FEW = 3  # the same where it must be quick
SOLVED = 200  # answers that each take their time, at most
DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    ADD_OR_REMOVE_ONE: ("remove", "add"),
    REPLACE_ONE: ("replace",),
}


class ExactAccountant(Accountant):
    """Evaluates the privacy curve of the composition itself."""

    label = "Exact"
    status: ClassVar[Status] = "exact"
    note = (
        "The true value, rounded up; two-sided, with the error stated. Where the "
        "sides do not meet, a bound, and called so."
    )
    counts_truncated_batches = True

    def __init__(
        self,
        refinements: int = MAX_REFINEMENTS,
        ways: int = 2,
        frequencies: int = MAX_FREQUENCIES,
        *,
        two_sided: bool = True,
    ) -> None:
        """Set what an answer may take.

        Args:
            refinements: How often discrete losses may be refined.
            ways: Directions to look at; one alone bounds ε from below.
            frequencies: That a line may have.
            two_sided: Whether the lower side is wanted where no line serves.
        """
        self.refinements = refinements
        self.ways = ways
        self.frequencies = frequencies
        self.two_sided = two_sided

    def searchers(
        self, relation: NeighboringRelation, *, quick: bool = False
    ) -> tuple[ExactAccountant, ...]:
        ways = len(DIRECTIONS[relation])
        if quick:
            return (ExactAccountant(1, ways, FEW_FREQUENCIES, two_sided=False),)
        return tuple(ExactAccountant(1, some) for some in range(1, ways + 1))

    def with_both_sides(self) -> ExactAccountant:
        """Return one that gives the lower side as well, and no larger upper one."""
        return ExactAccountant(self.refinements, self.ways, self.frequencies)

    def _composition(self, losses: Sequence[PrivacyLoss]) -> Composition:
        return Composition(
            losses, self.refinements, self.frequencies, two_sided=self.two_sided
        )

    def epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> Floats:
        return self._epsilons(phases, steps, delta, relation)[1]

    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> float:
        return float(self._deltas(phases, [epsilon], relation)[1][0])

    def work(
        self, phases: Sequence[Phase], answers: int, relation: NeighboringRelation
    ) -> float:
        question, answer = phase_work(phases)
        solved = min(answers, SOLVED) + answers / SOLVED  # the rest lie between
        return different(phases) * (question + answer * solved)

    def bounds(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        return intervals(*self._epsilons(phases, steps, delta, relation))

    def trade_off(
        self,
        phases: Sequence[Phase],
        false_positive_rates: Floats,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        rates = false_positive_rates
        if shown := revealed(phases):
            found = (shown + (1 - shown) * rates).tolist()
            status: Status = "exact" if shown == 1 else "bound"
            return [Interval(1.0, least, 1.0, status) for least in found]
        check_count([self], phases, relation, **TRADE_OFF)
        total = sum(phase.steps for phase in phases)
        top = float(self.epsilons(phases, [total], DELTAS[0], relation)[0])
        losses = min(top, LARGEST) * SPREAD  # δ at many ε costs little more than at one
        curves = self.directions(phases, losses.tolist(), relation)
        lower, upper = enclosed_rates(rates, losses, curves[0], curves[-1])
        pairs = zip(lower.tolist(), upper.tolist(), strict=True)
        return [Interval(high, low, high, "bound") for low, high in pairs]

    def preview(
        self,
        run: Phase,
        steps: Sequence[int],
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
        *,
        quick: bool = False,
    ) -> Preview:
        done, terms = np.asarray(steps), (delta, relation)
        last = self.searchers(relation, quick=quick)[-1]
        [spent] = last.with_both_sides().bounds([run], done[-1:], *terms)
        coarse = ExactAccountant(refinements=0, frequencies=FEW_FREQUENCIES)
        lower, upper = coarse._epsilons([run], done, *terms)
        shown = meet(lower, upper)
        rows = np.flatnonzero(~shown)
        if len(rows):
            share = np.linspace(0, len(rows) - 1, FEW if quick else NARROWED)
            rows = rows[np.unique(share.round().astype(int))]
            rows = rows[rows < len(done) - 1]
        if len(rows):
            upper[rows] = last.epsilons([run], done[rows], *terms)
        upper[-1] = spent.value
        shown[rows] = shown[-1] = True
        upper = np.minimum(upper, upper[-1])  # ε rises with the steps
        return Preview(done[shown].tolist(), upper[shown].tolist(), spent)

    def _epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation,
    ) -> tuple[Floats, Floats]:
        """Return the lower and the upper bound of ε after each number of steps.

        Shapes: steps [S] -> [S], [S].

        Raises:
            AccountingError: delta is not in (0, 1): nothing it could mean has an ε; or
                there are too many different phases.
        """
        domains.delta(delta)
        asked = np.atleast_1d(np.asarray(steps))
        check_count([self], phases, relation, answers=len(asked))
        counts = steps_by_phase(phases, asked)  # [S, P]
        phases, counts = merged(phases, counts)
        lower, upper = np.zeros(len(counts)), np.zeros(len(counts))
        open_ = without_closed_form(phases, counts)
        for row in np.flatnonzero(~open_):
            closed = closed_epsilon(phases, counts[row], delta, relation)
            lower[row], upper[row] = closed * (1 - ROUNDING), closed
        rest = np.flatnonzero(open_)
        phases, counts_left = merged(phases, counts[rest])  # all of them with noise
        if len(rest):  # total variation within δ makes ε 0
            spends = counts_left @ variations(phases, relation) > delta
            rest, counts_left = rest[spends], counts_left[spends]
        if len(rest):
            lower[rest], upper[rest] = self._composed(
                phases, counts_left, delta, relation
            )
        return _monotone(counts, lower, upper)

    def _composed(
        self,
        phases: Sequence[Phase],
        counts: Floats,
        delta: float,
        relation: NeighboringRelation,
    ) -> tuple[Floats, Floats]:
        """Return both sides for rows whose ε may be above 0; [S, P] -> [S], [S]."""
        if not within_reach(phases, counts.max(axis=0)):
            upper = crude_epsilons(phases, counts, delta, relation)
            return np.zeros(len(counts)), upper
        lower, upper = np.zeros(len(counts)), np.zeros(len(counts))
        tops = np.zeros(len(counts))  # Chernoff's bound in the direction of upper
        log_delta = math.log(delta)
        for direction in DIRECTIONS[relation][: self.ways]:
            composition = self._composition(step_losses(phases, direction, relation))
            left, floors = np.arange(len(counts)), None
            if direction == "add":  # often so small that a crude bound settles it
                left = np.flatnonzero(
                    composition.chernoff_epsilons(counts, log_delta) > upper
                )
                floors = upper[left]
            if len(left):
                low, high = composition.epsilons(counts[left], delta, floors)
                larger = left[high > upper[left]]
                lower[larger] = np.maximum(lower[larger], low[high > upper[left]])
                upper[larger] = high[high > upper[left]]
                tops[larger] = composition.chernoff_epsilons(counts[larger], log_delta)
        open_ = np.flatnonzero(~meet(lower, upper))
        if not self.two_sided:
            open_ = open_[upper[open_] >= tops[open_]]  # the others are narrowed
        if len(open_) and self.refinements:
            low, high = crude(phases, counts[open_], delta, relation)
            lower[open_] = np.maximum(lower[open_], low)
            upper[open_] = np.minimum(upper[open_], high)
        assert np.all(lower <= upper * (1 + CROSSED)), "the sides of ε have crossed"
        return np.minimum(lower, upper), np.maximum(lower, upper)

    def directions(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[tuple[Floats, Floats]]:
        """Return the bounds of δ of all phases at each ε >= 0, per direction.

        Returns:
            For each direction of the relation the lower and the upper bounds, [E], [E].
        """
        losses = np.asarray(epsilons, dtype=float)
        done = np.array([[phase.steps for phase in phases]], dtype=float)
        phases, (count, *_) = merged(phases, done)
        ways = DIRECTIONS[relation]
        only = sampled_step(phases, count)
        if only is not None and within_reach(phases, count):
            steps = [step_losses([only], way, relation)[0] for way in ways]
            curves = [np.maximum(step.deltas(losses), 0.0) for step in steps]
            return [(curve * (1 - ROUNDING), curve) for curve in curves]
        open_ = without_closed_form(phases, count[None])[0]
        if not open_ or not within_reach(phases, count):
            lower, upper = self._deltas(done_phases(phases, count), epsilons, relation)
            lower = lower if open_ or only is None else np.zeros(len(losses))
            return [(lower, upper)] * len(ways)
        found = [
            self._composition(step_losses(phases, way, relation)).log_deltas(
                count, losses
            )
            for way in ways
        ]
        return [(np.exp(low), np.exp(high)) for low, high in found]

    def delta_bounds(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        return intervals(*self._deltas(phases, epsilons, relation))

    def _deltas(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: NeighboringRelation,
    ) -> tuple[Floats, Floats]:
        """Return the lower and the upper bounds of δ at each ε >= 0; [E], [E]."""
        losses = np.asarray(epsilons, dtype=float)
        check_count([self], phases, relation, answers=len(losses))
        done = np.array([[phase.steps for phase in phases]], dtype=float)
        phases, (count, *_) = merged(phases, done)
        if not without_closed_form(phases, count[None])[0]:
            closed = [closed_delta(phases, count, float(x), relation) for x in losses]
            values = np.array(closed, dtype=float)
            return values * (1 - ROUNDING), values
        if not within_reach(phases, count):
            return crude_deltas(phases, count, losses, relation)
        lower, upper = np.full(len(losses), -np.inf), np.full(len(losses), -np.inf)
        for direction in DIRECTIONS[relation][: self.ways]:
            losses_of_steps = step_losses(phases, direction, relation)
            composition = self._composition(losses_of_steps)
            floors = lower if direction == "add" else None
            low, high = composition.log_deltas(count, losses, floors)
            lower, upper = np.maximum(lower, low), np.maximum(upper, high)
        return np.exp(lower), np.exp(upper)


def _monotone(counts: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the sides with what holds for more steps, and for fewer, taken in."""
    order = np.argsort(counts.sum(axis=1), kind="stable")
    if np.any(np.diff(counts[order], axis=0) < 0):
        return lower, upper
    low, high = np.empty_like(lower), np.empty_like(upper)
    low[order] = np.maximum.accumulate(lower[order])
    high[order] = np.minimum.accumulate(upper[order][::-1])[::-1]
    return low, high
