"""Privacy loss distributions of several phases, one per direction, as data."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.loss_distribution import LossDistribution, repeated
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import has_slots
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS
from dpsgd_explorer.accounting.rdp.curve import read_json
from dpsgd_explorer.errors import AccountingError

#: Version of the stored JSON.
VERSION = 1
KIND = "privacy_loss_distribution"
#: δ at the largest loss of the grid.
TAIL_DELTA = 1e-13
#: Probability that is cut from each end of a composition.
TRIMMED_TAIL = 1e-15
#: Relative gap between the bounds on δ above which single steps, whose δ has a closed
#: form, are composed instead; and the largest number of steps for which they are.
MAX_RELATIVE_GAP = 1e-2
MAX_SINGLE_STEPS = 1000
#: Points of the grid above 0: by default, and at most.
DEFAULT_POINTS = 2000
MAX_POINTS = 20_000
#: Largest loss of a grid: its exponential, and the square of that, are floats.
MAX_LOSS = 300.0


@dataclass(frozen=True, eq=False)
class PrivacyLossDistribution:
    """Discrete privacy losses whose δ is nowhere below the true one.

    >>> from dpsgd_explorer.accounting import Phase
    >>> one = PrivacyLossDistribution.of([Phase(0.01, 1.1, 500)])
    >>> both = one.compose(one)
    >>> round(both.epsilon(1e-5), 2)
    1.52

    Attributes:
        directions: Losses of the output with the record against the output without it,
            and of the opposite direction.  For a replaced record both directions have
            equal losses, and there is one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: the relation has another number of directions.

    Source: Doroshenko et al. (2022), arXiv:2207.04380, for pessimistic curves.
    """

    directions: tuple[LossDistribution, ...]
    neighboring_relation: str = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        names = DIRECTIONS[NeighboringRelation.of(self.neighboring_relation)]
        if len(self.directions) != len(names):
            rule = f"one for each of {', '.join(names)}"
            validation.refuse("directions", rule, len(self.directions))

    def __repr__(self) -> str:
        """Returns the losses of each direction, and the relation."""
        losses = ", ".join(repr(direction) for direction in self.directions)
        relation = str(self.neighboring_relation)
        return f"PrivacyLossDistribution({losses}, {relation!r})"

    @classmethod
    def of(
        cls,
        phases: Sequence[Phase],
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
        interval: float | None = None,
    ) -> Self:
        """Returns the distribution of all phases, from the exact accountant's curve.

        Args:
            phases: Completed phases.
            neighboring_relation: "add_or_remove_one" or "replace_one".
            interval: Spacing of the grid; None means 1/2000 of the largest loss.

        Raises:
            AccountingError: an argument is outside its domain; ε is so large that
                losses are no floats; or the interval needs too many points.
        """
        relation = NeighboringRelation.of(neighboring_relation)
        exact = ExactAccountant()
        total = sum(phase.steps for phase in phases)
        top = 0.0
        if total:
            top = float(exact.epsilons(phases, [total], TAIL_DELTA, relation)[0])
        width = _interval(top, interval)
        if top == 0:  # δ is at most TAIL_DELTA at every ε
            infinite = TAIL_DELTA if total else 0.0
            zero = LossDistribution(width, 0, np.array([1 - infinite]), infinite)
            return cls((zero,) * len(DIRECTIONS[relation]), relation)
        losses: Floats = np.asarray(width * np.arange(math.ceil(top / width) + 1))
        all_bounds = exact.directed_deltas(phases, losses.tolist(), relation)
        curves = [np.minimum(upper, 1.0) for _, upper in all_bounds]
        has_gap = any(_has_gap(*bounds) for bounds in all_bounds)
        is_divisible = not has_slots(phases)  # into independent steps
        if has_gap and is_divisible and 1 < total <= MAX_SINGLE_STEPS:
            composed = cls._step_by_step(phases, relation, width)
            pairs = zip(curves, composed.directions, strict=True)
            curves = [np.minimum(curve, x.deltas(losses)) for curve, x in pairs]
        distributions = [
            LossDistribution.two_tailed(width, curve, other)
            for curve, other in zip(curves, reversed(curves), strict=True)
        ]
        return cls(tuple(distributions), relation)

    @classmethod
    def _step_by_step(
        cls, phases: Sequence[Phase], relation: NeighboringRelation, interval: float
    ) -> PrivacyLossDistribution:
        """Returns the distribution composed of single steps with closed forms."""
        parts = [
            cls.of([replace(phase, steps=1)], relation, interval).self_compose(
                phase.steps
            )
            for phase in phases
            if phase.steps
        ]
        return reduce(PrivacyLossDistribution.compose, parts)

    def epsilon(self, delta: float) -> float:
        """Returns an upper bound on ε of both directions at delta in (0, 1)."""
        delta = validation.delta(delta)
        return max(direction.epsilon(delta) for direction in self.directions)

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound on δ of both directions at epsilon >= 0."""
        loss = validation.epsilon(epsilon)
        return max(float(x.deltas([loss])[0]) for x in self.directions)

    def compose(self, other: PrivacyLossDistribution) -> PrivacyLossDistribution:
        """Returns the distribution of both mechanisms, one after the other.

        Raises:
            AccountingError: the intervals or the neighbouring relations differ.
        """
        if other.neighboring_relation != self.neighboring_relation:
            rule = f"{self.neighboring_relation!r}, as the other distribution's"
            validation.refuse("neighboring_relation", rule, other.neighboring_relation)
        pairs = zip(self.directions, other.directions, strict=True)
        both = tuple(x.compose(y).trimmed(TRIMMED_TAIL) for x, y in pairs)
        return PrivacyLossDistribution(both, self.neighboring_relation)

    def self_compose(self, count: int) -> PrivacyLossDistribution:
        """Returns the distribution of ``count`` repetitions, at least one."""
        times = validation.steps(count, least=1)
        parts = tuple(repeated(x, times, TRIMMED_TAIL) for x in self.directions)
        return PrivacyLossDistribution(parts, self.neighboring_relation)

    def to_json(self) -> str:
        """Returns the distribution as JSON."""
        data = {
            "version": VERSION,
            "kind": KIND,
            "neighboring_relation": self.neighboring_relation,
            "directions": [
                {
                    "interval": direction.interval,
                    "first": direction.first,
                    "probabilities": direction.probabilities.tolist(),
                    "infinite": direction.infinite,
                }
                for direction in self.directions
            ],
        }
        return json.dumps(data, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the distribution that ``to_json`` wrote as text.

        Raises:
            AccountingError: the text is no such distribution.
        """
        names = ("neighboring_relation", "directions")
        relation, directions = read_json(text, KIND, VERSION, names)
        return cls(tuple(_distribution(data) for data in directions), relation)


def _distribution(data: Any) -> LossDistribution:
    try:
        return LossDistribution(**data)
    except TypeError as error:
        raise AccountingError(
            f"directions must be distributions that to_json wrote, got {data!r:.80}.",
            field="directions",
        ) from error


def _interval(top: float, interval: float | None) -> float:
    """Returns the interval of a grid up to the largest loss.

    Args:
        top: Largest loss.
        interval: Argument of the caller; None means the default.

    Raises:
        AccountingError: the interval is not greater than 0, or needs too many points.
    """
    if top > MAX_LOSS:
        validation.refuse("phases", f"at most {MAX_LOSS:g} in total privacy loss", top)
    if interval is None:
        return max(top, 1e-9) / DEFAULT_POINTS
    least = top / MAX_POINTS
    width = validation.finite("interval", interval)
    if width <= 0 or width < least:
        rule = f"greater than 0 and at least {least:g}"
        validation.refuse("interval", rule, interval)
    return width


def _has_gap(lower: Floats, upper: Floats) -> bool:
    """Returns True if the bounds have a large gap at a δ above TAIL_DELTA; [K], [K]."""
    gaps = upper - lower
    return bool(np.any(gaps > MAX_RELATIVE_GAP * upper, where=upper > TAIL_DELTA))
