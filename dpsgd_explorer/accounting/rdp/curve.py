"""Rényi divergences as data, which can be stored, composed and converted to ε.

A curve contains upper bounds R(α) at some orders.  (α - 1) R(α) of the true divergences
is convex in α and 0 at α = 1, so that between two known orders it is below the chord of
the bounds.  So curves with different orders add up at the orders of both.  Beyond the
smaller of their largest orders no bound is known.

Source: van Erven and Harremoës (2014), arXiv:1206.2459v2, Corollary 2 (convexity);
addition: Mironov (2017), arXiv:1702.07476v3, Proposition 1; conversion: as
``accountant``.

Notation: A orders.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import StepCounts
from dpsgd_explorer.accounting.rdp.accountant import (
    composed_divergences,
    delta_from_rdp,
    epsilon_from_rdp,
)
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import ORDERS
from dpsgd_explorer.errors import AccountingError

#: Version of the stored JSON.
VERSION = 1
KIND = "rdp_curve"


@dataclass(frozen=True, eq=False)
class RdpCurve:
    """Upper bounds on Rényi divergences, checked on creation.

    >>> curve = RdpCurve.of([Phase(0.01, 1.1, 1000)])
    >>> round(curve.epsilon(1e-5), 4)
    1.7118
    >>> curve
    RdpCurve(206 orders from 1.01 to 1024, 'add_or_remove_one')

    Attributes:
        orders: α, ascending, each greater than 1, [A].
        divergences: R(α), at least 0, may be infinite, [A].
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: names the attribute that is outside its domain.

    Source: Mironov (2017), arXiv:1702.07476v3, Proposition 1 (composition); Canonne,
    Kamath and Steinke (2020), arXiv:2004.00010v4, Proposition 12 (conversion).
    """

    orders: Floats
    divergences: Floats
    neighboring_relation: str = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        orders = _row("orders", self.orders)
        values = _row("divergences", self.divergences)
        if not (np.all(orders > 1) and np.all(np.diff(orders) > 0)):
            domains.refuse("orders", "ascending and greater than 1", self.orders)
        if not np.all(np.isfinite(orders)):
            domains.refuse("orders", "finite", self.orders)
        if values.shape != orders.shape or not np.all(values >= 0):
            rule = f"{len(orders)} numbers of at least 0, one for each order"
            domains.refuse("divergences", rule, self.divergences)
        NeighboringRelation.of(self.neighboring_relation)
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "divergences", values)

    def __repr__(self) -> str:
        """Returns the number and range of the orders, and the relation."""
        first, last = self.orders[[0, -1]]
        return (
            f"RdpCurve({len(self.orders)} orders from {first:g} to {last:g}, "
            f"{str(self.neighboring_relation)!r})"
        )

    @classmethod
    def of(
        cls, phases: Sequence[Phase], neighboring_relation: str = ADD_OR_REMOVE_ONE
    ) -> Self:
        """Returns the curve of all phases, at the orders of the Rényi accountant."""
        relation = NeighboringRelation.of(neighboring_relation)
        total = sum(phase.steps for phase in phases)
        ascending = np.argsort(ORDERS)
        values = np.zeros(len(ORDERS))
        if total:  # the list of phases may be empty
            [values] = composed_divergences(StepCounts.whole(phases, relation))
        return cls(ORDERS[ascending], values[ascending], relation)

    def at(self, orders: npt.ArrayLike) -> Floats:
        """Returns R at other orders greater than 1, infinite beyond the largest known.

        Shapes: orders [K] -> [K].
        """
        wanted = _row("orders", orders)
        if not np.all(wanted > 1):
            domains.refuse("orders", "greater than 1", orders)
        orders = np.concatenate([[1.0], self.orders])
        moments = np.concatenate([[0.0], (self.orders - 1) * self.divergences])
        right = np.clip(np.searchsorted(orders, wanted), 1, len(orders) - 1)
        left = right - 1
        share = (wanted - orders[left]) / (orders[right] - orders[left])
        with np.errstate(invalid="ignore"):  # 0 times infinity, at a known order
            chords = (1 - share) * moments[left] + share * moments[right]
        values = np.where(np.isnan(chords), math.inf, chords) / (wanted - 1)
        # orders starts with 1.0: orders[right] is self.orders[left].
        exact = self.orders[left] == wanted
        values = np.where(exact, self.divergences[left], values)
        return np.where(wanted > self.orders[-1], math.inf, values)

    def compose(self, other: RdpCurve) -> RdpCurve:
        """Returns the curve of both mechanisms together, at the orders of both.

        Raises:
            AccountingError: their neighbouring relations differ.
        """
        if other.neighboring_relation != self.neighboring_relation:
            rule = f"{self.neighboring_relation!r}, as the other curve's"
            domains.refuse("neighboring_relation", rule, other.neighboring_relation)
        orders = np.union1d(self.orders, other.orders)
        orders = orders[orders <= min(self.orders[-1], other.orders[-1])]
        total = self.at(orders) + other.at(orders)
        return RdpCurve(orders, total, self.neighboring_relation)

    def self_compose(self, count: int) -> RdpCurve:
        """Returns the curve of ``count`` repetitions, at least one."""
        times = domains.steps(count, least=1)
        values = times * self.divergences
        return RdpCurve(self.orders, values, self.neighboring_relation)

    def epsilon(self, delta: float) -> float:
        """Returns an upper bound on ε at delta in (0, 1), which may be infinite."""
        return float(
            epsilon_from_rdp(self.divergences, domains.delta(delta), self.orders)
        )

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound on δ at epsilon >= 0."""
        return delta_from_rdp(self.divergences, domains.epsilon(epsilon), self.orders)

    def to_json(self) -> str:
        """Returns the curve as JSON; infinite divergences are null."""
        values = [x if math.isfinite(x) else None for x in self.divergences.tolist()]
        data = {
            "version": VERSION,
            "kind": KIND,
            "neighboring_relation": self.neighboring_relation,
            "orders": self.orders.tolist(),
            "divergences": values,
        }
        return json.dumps(data, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the curve that ``to_json`` wrote.

        Raises:
            AccountingError: the text is no such curve.
        """
        names = ("neighboring_relation", "orders", "divergences")
        relation, orders, values = read_json(text, KIND, VERSION, names)
        divergences = np.array([math.inf if x is None else x for x in values])
        return cls(orders, divergences, relation)


def read_json(text: str, kind: str, version: int, names: Sequence[str]) -> list[Any]:
    """Returns the values of ``names`` from JSON of this kind and version.

    Raises:
        AccountingError: the text has another kind, version or layout.
    """
    try:
        data = json.loads(text)
        fits = data["version"] == version and data["version"] is not True
        if not fits or data["kind"] != kind or set(data) != {*names, *HEADER}:
            raise KeyError(kind)
        if not all(isinstance(data[name], TYPES.get(name, list)) for name in names):
            raise TypeError(kind)
        return [data[name] for name in names]
    except (KeyError, TypeError, ValueError) as error:
        raise AccountingError(
            f"{kind} must be JSON that to_json wrote, got {text[:80]!r}.", field=kind
        ) from error


#: Names that precede the values in every stored text.
HEADER = ("version", "kind")
#: Types of the values that are no lists.
TYPES: dict[str, type] = {"neighboring_relation": str}


def _row(name: str, values: npt.ArrayLike) -> Floats:
    """Returns real numbers as a read-only array, [A]."""
    row = domains.numbers(name, values)
    if not row.size:
        domains.refuse(name, "a list of numbers, one or more", values)
    row.flags.writeable = False
    return row
