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
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS
from dpsgd_explorer.accounting.rdp.curve import read_json
from dpsgd_explorer.errors import AccountingError

VERSION = 1
KIND = "privacy_loss_distribution"
TAIL = 1e-13  # δ of the largest loss of the grid
TRIM = 1e-15  # of each side of a composition
LOOSE = 1e-2  # relative gap of δ at which single steps are composed instead
MOST_SINGLE_STEPS = 1000
POINTS = 2000  # of the grid, above 0, where no interval is asked for
MOST_POINTS = 20_000
LARGEST = 300.0  # loss whose exponential, and its square, are floats


@dataclass(frozen=True, eq=False)
class PrivacyLossDistribution:
    """Discrete privacy losses whose δ is nowhere below the true one.

    >>> from dpsgd_explorer.accounting import Phase
    >>> one = PrivacyLossDistribution.of([Phase(0.01, 1.1, 500)])
    >>> both = one.compose(one)
    >>> round(both.epsilon(1e-5), 2)
    1.52

    Attributes:
        directions: With the record against without and the other way round, or for a
            replaced record the one direction that both are.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: the relation has another number of directions.

    Source: Doroshenko et al. (2022), arXiv:2207.04380, for pessimistic curves.
    """

    directions: tuple[LossDistribution, ...]
    neighboring_relation: str = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        ways = DIRECTIONS[NeighboringRelation.of(self.neighboring_relation)]
        if len(self.directions) != len(ways):
            rule = f"one for each of {', '.join(ways)}"
            validation.refuse("directions", rule, len(self.directions))

    def __repr__(self) -> str:
        """Return the losses of each direction, and the relation."""
        ways = ", ".join(repr(direction) for direction in self.directions)
        relation = str(self.neighboring_relation)
        return f"PrivacyLossDistribution({ways}, {relation!r})"

    @classmethod
    def of(
        cls,
        phases: Sequence[Phase],
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
        interval: float | None = None,
    ) -> Self:
        """Return the distribution of all phases, from the exact accountant's curve.

        Args:
            phases: Completed phases.
            neighboring_relation: "add_or_remove_one" or "replace_one".
            interval: Spacing of the grid; None takes a 2000th of the largest loss.

        Raises:
            AccountingError: an argument is outside its domain; ε is so large that
                losses are no floats; or the interval needs too many points.
        """
        relation = NeighboringRelation.of(neighboring_relation)
        ways = DIRECTIONS[relation]
        exact = ExactAccountant()
        total = sum(phase.steps for phase in phases)
        top = 0.0
        if total:
            top = float(exact.epsilons(phases, [total], TAIL, relation)[0])
        width = _interval(top, interval)
        if top == 0:  # δ = TAIL at most, at every ε
            infinite = TAIL if total else 0.0
            nothing = LossDistribution(width, 0, np.array([1 - infinite]), infinite)
            return cls((nothing,) * len(ways), relation)
        losses: Floats = np.asarray(width * np.arange(math.ceil(top / width) + 1))
        found = exact.directed_deltas(phases, losses.tolist(), relation)
        curves = [np.minimum(upper, 1.0) for _, upper in found]
        loose = any(_is_loose(*bounds) for bounds in found)
        if loose and 1 < total <= MOST_SINGLE_STEPS:
            singly = cls._step_by_step(phases, relation, width)
            pairs = zip(curves, singly.directions, strict=True)
            curves = [np.minimum(curve, way.deltas(losses)) for curve, way in pairs]
        made = [
            LossDistribution.two_tailed(width, curve, other)
            for curve, other in zip(curves, reversed(curves), strict=True)
        ]
        return cls(tuple(made), relation)

    @classmethod
    def _step_by_step(
        cls, phases: Sequence[Phase], relation: NeighboringRelation, interval: float
    ) -> PrivacyLossDistribution:
        """Return the distribution composed of single steps, which have closed forms."""
        parts = [
            cls.of([replace(phase, steps=1)], relation, interval).self_compose(
                phase.steps
            )
            for phase in phases
            if phase.steps
        ]
        return reduce(PrivacyLossDistribution.compose, parts)

    def epsilon(self, delta: float) -> float:
        """Return ε at delta in (0, 1), a bound: the larger of the directions'."""
        delta = validation.delta(delta)
        return max(direction.epsilon(delta) for direction in self.directions)

    def delta(self, epsilon: float) -> float:
        """Return δ at epsilon >= 0, a bound."""
        loss = validation.epsilon(epsilon)
        return max(float(way.deltas([loss])[0]) for way in self.directions)

    def compose(self, other: PrivacyLossDistribution) -> PrivacyLossDistribution:
        """Return the distribution of both, one after the other.

        Raises:
            AccountingError: they have different intervals or neighbouring relations.
        """
        if other.neighboring_relation != self.neighboring_relation:
            rule = f"{self.neighboring_relation!r}, as the other distribution's"
            validation.refuse("neighboring_relation", rule, other.neighboring_relation)
        pairs = zip(self.directions, other.directions, strict=True)
        both = tuple(one.compose(two).trimmed(TRIM) for one, two in pairs)
        return PrivacyLossDistribution(both, self.neighboring_relation)

    def self_compose(self, count: int) -> PrivacyLossDistribution:
        """Return the distribution of ``count`` compositions, at least one."""
        times = validation.steps(count, least=1)
        parts = tuple(repeated(way, times, TRIM) for way in self.directions)
        return PrivacyLossDistribution(parts, self.neighboring_relation)

    def to_json(self) -> str:
        """Return the distribution as JSON."""
        data = {
            "version": VERSION,
            "kind": KIND,
            "neighboring_relation": self.neighboring_relation,
            "directions": [
                {
                    "interval": way.interval,
                    "first": way.first,
                    "probabilities": way.probabilities.tolist(),
                    "infinite": way.infinite,
                }
                for way in self.directions
            ],
        }
        return json.dumps(data, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the distribution that ``to_json`` returned as text.

        Raises:
            AccountingError: it is no such text.
        """
        names = ("neighboring_relation", "directions")
        relation, ways = read_json(text, KIND, VERSION, names)
        return cls(tuple(_distribution(way) for way in ways), relation)


def _distribution(data: Any) -> LossDistribution:
    try:
        return LossDistribution(**data)
    except TypeError as error:
        raise AccountingError(
            f"directions must be distributions that to_json wrote, got {data!r:.80}.",
            field="directions",
        ) from error


def _interval(top: float, asked: float | None) -> float:
    """Return the interval of a grid up to the largest loss.

    Raises:
        AccountingError: it is not greater than 0, or needs too many points.
    """
    if top > LARGEST:
        validation.refuse("phases", f"at most {LARGEST:g} in total privacy loss", top)
    if asked is None:
        return max(top, 1e-9) / POINTS
    least = top / MOST_POINTS
    width = validation.finite("interval", asked)
    if width <= 0 or width < least:
        validation.refuse("interval", f"greater than 0 and at least {least:g}", asked)
    return width


def _is_loose(lower: Floats, upper: Floats) -> bool:
    """Return whether the bounds of δ are far apart where it matters; [K], [K]."""
    return bool(np.any(upper - lower > LOOSE * upper, where=upper > TAIL))
