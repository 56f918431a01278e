"""The parts of a composition, each as bounds on a curve of δ over ε.

All steps of DP-SGD together are one part, and so are all steps on batches of fixed
size with one setting.  Every other mechanism is a part of its own.

Notation: K losses of a grid from 0 on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats, Interval
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import Phase, has_slots
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS
from dpsgd_explorer.accounting.fixed_size import opposite
from dpsgd_explorer.accounting.mechanisms.noise import FixedSizeSteps, Mechanism
from dpsgd_explorer.accounting.privacy_loss_distribution import PrivacyLossDistribution
from dpsgd_explorer.errors import AccountingError

#: Points of a curve of DP-SGD that are evaluated together.
CURVE_POINTS = 100

Curve = tuple[Floats, Floats]  # lower and upper bounds on δ at each loss, [K] each


@dataclass(frozen=True)
class Part:
    """One mechanism, or all steps of DP-SGD, as bounds on a curve.

    Attributes:
        curves: Bounds on δ at losses from 0 on, one pair per direction.
        top: Loss beyond which δ exceeds ``failure`` by at most an argument, ``tail``.
        epsilon: Upper bound on ε at a δ, of all ``count`` repetitions.
        lower: Lower bound on ε at a δ.
        failure: Probability of an infinite loss.
        pure: Largest finite loss, infinite if there is none.
        count: Repetitions.
        concentration: ρ of zero-concentrated privacy, infinite if none is known.
        attained: Bounds on the curve of a pair of outputs that some data reach, in this
            direction and in the other one; None if ``curves`` has lower bounds.
    """

    curves: Callable[[Floats], list[Curve]]
    top: Callable[[float], float]
    epsilon: Callable[[float], float]
    lower: Callable[[float], float]
    failure: float = 0.0
    pure: float = math.inf
    count: int = 1
    concentration: float = math.inf
    attained: Callable[[Floats], list[Curve]] | None = None


def part_of(
    mechanism: Mechanism | PrivacyLossDistribution,
    count: int,
    relation: NeighboringRelation,
) -> Part:
    """Returns the curve of a mechanism.

    Raises:
        AccountingError: the mechanism has no bound for the relation.
    """
    if isinstance(mechanism, PrivacyLossDistribution):
        return _distribution_part(mechanism, count, relation)
    if reason := mechanism.reason(relation):
        raise AccountingError(reason, field="neighboring_relation")

    if isinstance(mechanism, FixedSizeSteps):
        return _fixed_size_part(mechanism, count, relation)

    def curves(losses: Floats) -> list[Curve]:
        curve = mechanism.curve(losses, relation)
        error = mechanism.round_off(losses, relation)
        low = np.maximum(curve - error, 0.0)
        low = low if mechanism.is_attained else np.zeros_like(low)
        pair = low, np.minimum(curve + error, 1.0)
        return [pair] * len(DIRECTIONS[relation])

    def epsilon(delta: float) -> float:
        share = delta / count
        rest = share - mechanism.failure
        return math.inf if rest < 0 else count * mechanism.top(rest, relation)

    return Part(
        curves,
        lambda tail: mechanism.top(tail, relation),
        epsilon,
        lambda delta: 0.0,
        mechanism.failure,
        mechanism.pure_epsilon(relation),
        count,
        mechanism.concentration(relation),
    )


def _fixed_size_part(
    given: FixedSizeSteps, count: int, relation: NeighboringRelation
) -> Part:
    removed = steps_part(
        [opposite(given.phase)], NeighboringRelation.of(ADD_OR_REMOVE_ONE)
    )

    def curves(losses: Floats) -> list[Curve]:
        return [(np.zeros_like(losses), given.curve(losses, relation))]

    return Part(
        curves,
        lambda tail: given.top(tail, relation),
        lambda delta: count * given.interval(delta / count).value,
        lambda delta: given.interval(delta).lower or 0.0,
        count=count,
        attained=removed.curves,
    )


def _distribution_part(
    given: PrivacyLossDistribution, count: int, relation: NeighboringRelation
) -> Part:
    if given.neighboring_relation != relation:
        rule = f"{str(given.neighboring_relation)!r}, as the added distribution's"
        validation.refuse("neighboring_relation", rule, str(relation))
    ends = [max(float(loss.losses[-1]), 0.0) for loss in given.directions]

    def curves(losses: Floats) -> list[Curve]:
        return [
            (np.zeros_like(losses), loss.deltas(losses)) for loss in given.directions
        ]

    return Part(
        curves,
        lambda tail: max(ends),
        lambda delta: count * given.epsilon(delta / count),
        lambda delta: 0.0,
        max(loss.infinite for loss in given.directions),
        math.inf,
        count,
    )


def steps_part(phases: Sequence[Phase], relation: NeighboringRelation) -> Part:
    """Returns the curve of all steps of DP-SGD together."""
    exact, total = ExactAccountant(), [sum(phase.steps for phase in phases)]

    def bounds(delta: float) -> Interval:
        return exact.bounds(phases, total, delta, relation)[0]

    def curves(losses: Floats) -> list[Curve]:
        # The sums of random allocation are computed once per call.
        points = len(losses) if has_slots(phases) else CURVE_POINTS
        chunks = [
            exact.directed_deltas(phases, chunk.tolist(), relation)
            for chunk in np.array_split(losses, math.ceil(len(losses) / points))
        ]
        sides = [
            [np.concatenate(side) for side in zip(*pairs, strict=True)]
            for pairs in zip(*chunks, strict=True)
        ]
        return [(low, np.minimum(high, 1.0)) for low, high in sides]

    # With random allocation, the first two grids are enough for a range.
    ranging = ExactAccountant(2) if has_slots(phases) else exact

    def top(tail: float) -> float:
        return float(ranging.epsilons(phases, total, tail, relation)[0])

    def epsilon(delta: float) -> float:
        return bounds(delta).value

    return Part(curves, top, epsilon, lambda delta: bounds(delta).lower or 0.0)


def repeated_end(part: Part, top: float, tail: float) -> float:
    """Returns a loss that the sum of the repetitions exceeds with at most ``tail``.

    For a loss of at most a in size, its mean is at most a tanh(a/2), and Hoeffding's
    inequality bounds the sum.  With zero-concentrated privacy ρ, the sum exceeds
    nρ + t with a probability of at most e^(-t²/4nρ) (Bun and Steinke 2016).
    """
    end = part.count * top
    if part.count == 1:
        return end
    if math.isfinite(part.concentration):
        rho = part.count * part.concentration
        end = min(end, rho + 2 * math.sqrt(-rho * math.log(tail)))
    if math.isfinite(part.pure):
        mean = part.pure * math.tanh(part.pure / 2)
        spread = part.pure * math.sqrt(-2 * part.count * math.log(tail))
        end = min(part.count * part.pure, part.count * mean + spread)
    return end
