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
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import (
    SENSITIVITY,
    Accountant,
    Floats,
    Phase,
    Status,
    different,
    steps_by_phase,
)
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.phase_limits import check_count
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
from dpsgd_explorer.accounting.exact.pld_bounds import MAX_REFINEMENTS
from dpsgd_explorer.accounting.exact.privacy_loss import Direction, PrivacyLoss
from dpsgd_explorer.accounting.exact.single_step import (
    single_step_delta,
    single_step_epsilon,
)
from dpsgd_explorer.accounting.exact.step_losses import step_losses

FEW_FREQUENCIES = 1 << 9  # that take a few milliseconds
GAP = 1e-4  # relative, up to which an answer is called exact
CROSSED = 1e-8  # relative, by which sides may cross from the round-off of a large ε
LEAST_RATE = 1e-9  # below it, or with less noise, only a bound is given
LEAST_NOISE = 0.1
RARELY, OFTEN = 0.1, 30.0  # steps with a record, on average
LITTLE_NOISE = 0.4
SOLVED = 200  # answers that each take their time, at most
MANY = 1000.0  # of them, up to which little noise takes longer
USUAL_WORK, FEW_WORK = (2.0, 1.0), (2.0, 1.5)  # as ``phase_work``
SPARSE_WORK, RARE_WORK = (40.0, 3.0), (70.0, 2.0)
DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    "add_or_remove_one": ("remove", "add"),
    "replace_one": ("replace",),
}


@dataclass(frozen=True)
class Bounds:
    """Two sides of the true values, [S] each; lower may be 0 for want of better."""

    lower: Floats
    upper: Floats

    @property
    def meet(self) -> npt.NDArray[np.bool_]:
        """Whether the sides are as close as an exact answer needs, [S]."""
        infinite = np.isinf(self.upper) & np.isinf(self.lower)
        with np.errstate(invalid="ignore"):
            close = self.upper - self.lower <= GAP * self.upper
        return close | infinite


class ExactAccountant(Accountant):
    """Evaluates the privacy curve of the composition itself."""

    label = "Exact"
    status: ClassVar[Status] = "exact"
    note = (
        "The true value, rounded up; two-sided, with the error stated. Where the "
        "sides do not meet, a bound, and called so."
    )
    neighboring_relations = tuple(DIRECTIONS)

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
        self, relation: str, *, quick: bool = False
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
        relation: str = "add_or_remove_one",
    ) -> Floats:
        return self.bounds(phases, steps, delta, relation).upper

    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: str = "add_or_remove_one",
    ) -> float:
        return float(self.delta_bounds(phases, [epsilon], relation).upper[0])

    def work(self, phases: Sequence[Phase], answers: int, relation: str) -> float:
        question, answer = _phase_work(phases)
        solved = min(answers, SOLVED) + answers / SOLVED  # the rest lie between
        return different(phases) * (question + answer * solved)

    def bounds(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: str = "add_or_remove_one",
    ) -> Bounds:
        """Return ε after each number of steps, from below and from above.

        Shapes: steps [S] -> [S].

        Raises:
            AccountingError: delta is not in (0, 1): nothing it could mean has an ε; or
                there are too many different phases.
        """
        domains.delta(delta)
        asked = np.atleast_1d(np.asarray(steps))
        check_count([self], phases, relation, answers=len(asked))
        counts = steps_by_phase(phases, asked)  # [S, P]
        phases, counts = _merged(phases, counts)
        lower, upper = np.zeros(len(counts)), np.zeros(len(counts))
        open_ = _without_closed_form(phases, counts)
        for row in np.flatnonzero(~open_):
            closed = _closed_epsilon(phases, counts[row], delta, relation)
            lower[row], upper[row] = closed * (1 - ROUNDING), closed
        rest = np.flatnonzero(open_)
        phases, counts_left = _merged(phases, counts[rest])  # all of them with noise
        if len(rest):  # total variation within δ makes ε 0
            spends = counts_left @ variations(phases, relation) > delta
            rest, counts_left = rest[spends], counts_left[spends]
        if len(rest):
            lower[rest], upper[rest] = self._composed(
                phases, counts_left, delta, relation
            )
        return Bounds(*_monotone(counts, lower, upper))

    def _composed(
        self, phases: Sequence[Phase], counts: Floats, delta: float, relation: str
    ) -> tuple[Floats, Floats]:
        """Return both sides for rows whose ε may be above 0; [S, P] -> [S], [S]."""
        if not _within_reach(phases, counts.max(axis=0)):
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
        open_ = np.flatnonzero(~Bounds(lower, upper).meet)
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
        relation: str = "add_or_remove_one",
    ) -> list[Bounds]:
        """Return δ of all phases at each ε >= 0, of each direction of the relation."""
        losses = np.asarray(epsilons, dtype=float)
        done = np.array([[phase.steps for phase in phases]], dtype=float)
        phases, (count, *_) = _merged(phases, done)
        ways = DIRECTIONS[relation]
        only = _sampled_step(phases, count)
        if only is not None and _within_reach(phases, count):
            steps = [step_losses([only], way, relation)[0] for way in ways]
            curves = [np.maximum(step.deltas(losses), 0.0) for step in steps]
            return [Bounds(curve * (1 - ROUNDING), curve) for curve in curves]
        open_ = _without_closed_form(phases, count[None])[0]
        if not open_ or not _within_reach(phases, count):
            both = self.delta_bounds(done_phases(phases, count), epsilons, relation)
            lower = both.lower if open_ or only is None else np.zeros(len(losses))
            return [Bounds(lower, both.upper)] * len(ways)
        found = [
            self._composition(step_losses(phases, way, relation)).log_deltas(
                count, losses
            )
            for way in ways
        ]
        return [Bounds(np.exp(low), np.exp(high)) for low, high in found]

    def delta_bounds(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: str = "add_or_remove_one",
    ) -> Bounds:
        """Return δ of all phases at each ε >= 0, from below and from above."""
        losses = np.asarray(epsilons, dtype=float)
        check_count([self], phases, relation, answers=len(losses))
        done = np.array([[phase.steps for phase in phases]], dtype=float)
        phases, (count, *_) = _merged(phases, done)
        if not _without_closed_form(phases, count[None])[0]:
            closed = [_closed_delta(phases, count, float(x), relation) for x in losses]
            values = np.array(closed, dtype=float)
            return Bounds(values * (1 - ROUNDING), values)
        if not _within_reach(phases, count):
            return Bounds(*crude_deltas(phases, count, losses, relation))
        lower, upper = np.full(len(losses), -np.inf), np.full(len(losses), -np.inf)
        for direction in DIRECTIONS[relation][: self.ways]:
            losses_of_steps = step_losses(phases, direction, relation)
            composition = self._composition(losses_of_steps)
            floors = lower if direction == "add" else None
            low, high = composition.log_deltas(count, losses, floors)
            lower, upper = np.maximum(lower, low), np.maximum(upper, high)
        return Bounds(np.exp(lower), np.exp(upper))


def _phase_work(phases: Sequence[Phase]) -> tuple[float, float]:
    """Return what a different phase takes: more, the more rarely a record takes part.

    Then losses are rare and large, and lines need many frequencies, or are in vain.
    """
    sampled = [phase for phase in phases if phase.sample_rate < 1 and phase.steps]
    expected = math.fsum(phase.sample_rate * phase.steps for phase in sampled)
    least = min((phase.noise_multiplier for phase in sampled), default=math.inf)
    if not sampled or expected >= MANY:
        return USUAL_WORK
    if expected < RARELY:
        return RARE_WORK
    if least < LITTLE_NOISE:
        return SPARSE_WORK
    return FEW_WORK if expected < OFTEN else USUAL_WORK


def _monotone(counts: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the sides with what holds for more steps, and for fewer, taken in."""
    order = np.argsort(counts.sum(axis=1), kind="stable")
    if np.any(np.diff(counts[order], axis=0) < 0):
        return lower, upper
    low, high = np.empty_like(lower), np.empty_like(upper)
    low[order] = np.maximum.accumulate(lower[order])
    high[order] = np.minimum.accumulate(upper[order][::-1])[::-1]
    return low, high


def _without_closed_form(
    phases: Sequence[Phase], counts: Floats
) -> npt.NDArray[np.bool_]:
    """Tell which rows take two or more steps, one of them on a sample; [S, P] -> [S].

    Without noise there is a closed form as well: infinity.
    """
    sampled = np.array([phase.sample_rate < 1 for phase in phases], dtype=bool)
    silent = np.array([phase.noise_multiplier == 0 for phase in phases], dtype=bool)
    done = counts > 0
    several = counts.sum(axis=1) > 1
    rest = several & done[:, sampled].any(axis=1)
    return np.asarray(rest & ~done[:, silent].any(axis=1))


def _closed_epsilon(
    phases: Sequence[Phase], count: Floats, delta: float, relation: str
) -> float:
    """Return ε of a row with a closed form."""
    if (only := _sampled_step(phases, count)) is not None:
        q, sigma = only.sample_rate, only.noise_multiplier
        return single_step_epsilon(q, sigma, delta, relation)
    return epsilon_of_mu(delta, _gaussian_mu(phases, count, relation))


def _closed_delta(
    phases: Sequence[Phase], count: Floats, epsilon: float, relation: str
) -> float:
    """Return δ of a row with a closed form."""
    if (only := _sampled_step(phases, count)) is not None:
        q, sigma = only.sample_rate, only.noise_multiplier
        return single_step_delta(q, sigma, epsilon, relation)
    return delta_of_mu(epsilon, _gaussian_mu(phases, count, relation))


def _sampled_step(phases: Sequence[Phase], count: Floats) -> Phase | None:
    """Return the phase of a run that consists of one subsampled step."""
    if count.sum() != 1:
        return None
    phase = phases[int(count.argmax())]
    sampled = phase.sample_rate < 1 and phase.noise_multiplier > 0
    return phase if sampled else None


def _gaussian_mu(phases: Sequence[Phase], count: Floats, relation: str) -> float:
    """Return μ of the one Gaussian that steps on all records are."""
    done = [(phase, n) for phase, n in zip(phases, count, strict=True) if n]
    if any(phase.noise_multiplier == 0 for phase, _ in done):
        return math.inf
    roots = [math.sqrt(n) / phase.noise_multiplier for phase, n in done]
    return SENSITIVITY[relation] * math.hypot(*roots)


def _within_reach(phases: Sequence[Phase], count: Floats) -> bool:
    """Tell whether the integrals can be trusted for all the steps that are done."""
    return all(
        phase.noise_multiplier >= LEAST_NOISE
        and phase.sample_rate >= LEAST_RATE
        and (phase.sample_rate == 1 or phase.sample_rate < 1 - LEAST_RATE)
        for phase, n in zip(phases, count, strict=True)
        if n
    )


def _merged(phases: Sequence[Phase], counts: Floats) -> tuple[list[Phase], Floats]:
    """Return the phases that any row gets to, no two of them with the same settings.

    Shapes: counts [S, P] -> [S, p].
    """
    reached = [
        (phase.sample_rate, phase.noise_multiplier, done)
        for phase, done in zip(phases, counts.T, strict=True)
        if done.any()
    ]
    settings = dict.fromkeys((q, sigma) for q, sigma, _ in reached)
    places = {setting: i for i, setting in enumerate(settings)}
    merged = np.zeros((len(settings), len(counts)))
    for q, sigma, done in reached:
        merged[places[q, sigma]] += done
    merged = merged.T
    return [Phase(q, sigma, 0) for q, sigma in settings], merged
