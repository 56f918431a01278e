"""A target (ε, δ) of a search for noise, sample rate or steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase_limits import SEARCH, check_count
from dpsgd_explorer.accounting.core.root_finding import confirmed
from dpsgd_explorer.accounting.registry import accountant_and_relation

Setting = TypeVar("Setting", int, float)


@dataclass(frozen=True)
class Target:
    """The most ε that may be spent at δ, and the accountant that counts it.

    Attributes:
        epsilon: Greater than 0.
        delta: In (0, 1).
        accountant: The accountant whose ε counts.
        relation: The difference between neighbouring data sets.
    """

    epsilon: float
    delta: float
    accountant: Accountant
    relation: NeighboringRelation

    @classmethod
    def of(
        cls,
        target_epsilon: float,
        delta: float,
        accountant: str,
        neighboring_relation: str,
    ) -> Target:
        """Return the target of these arguments.

        Raises:
            AccountingError: an argument is outside its domain.
        """
        chosen, relation = accountant_and_relation(accountant, neighboring_relation)
        epsilon = validation.target_epsilon(target_epsilon)
        return cls(epsilon, validation.delta(delta), chosen, relation)

    def check_count(self, phases: Sequence[Phase]) -> None:
        """Refuse a search over more different phases than are answered at once."""
        check_count([self.accountant], phases, self.relation, **SEARCH)

    def spent(
        self, accountant: Accountant, phases: Sequence[Phase], steps: int | None = None
    ) -> float:
        """Return the ε of the phases at δ, of their first ``steps`` steps if given."""
        total = sum(phase.steps for phase in phases) if steps is None else steps
        return float(accountant.epsilons(phases, [total], self.delta, self.relation)[0])

    def excess(self, accountant: Accountant, phases: Sequence[Phase]) -> float:
        """Return a smooth number in [-1, 1] with the exact sign of spent - target."""
        spent = self.spent(accountant, phases)
        if math.isinf(spent):
            return 1.0
        return (spent - self.epsilon) / max(spent, self.epsilon)

    def log_excess(
        self, accountant: Accountant, phases: Sequence[Phase], steps: int | None = None
    ) -> float:
        """Return log of spent over target, for the first ``steps`` steps if given."""
        spent = self.spent(accountant, phases, steps)
        return math.log(spent) - math.log(self.epsilon) if spent > 0 else -math.inf

    def search(
        self,
        find: Callable[[Accountant], Setting],
        spent: Callable[[Accountant, Setting], float],
        *,
        quick: bool = False,
    ) -> Setting:
        """Return the setting that a search finds and the accountant confirms.

        Args:
            find: Returns the setting by bounds of one of the accountant's searchers.
            spent: Returns ε of a setting.
            quick: Search with bounds that take a few milliseconds.
        """

        def keeps(accountant: Accountant, setting: Setting) -> bool:
            return math.isfinite(setting) and spent(accountant, setting) <= self.epsilon

        searchers = self.accountant.searchers(self.relation, quick=quick)
        return confirmed(searchers, find, keeps)
