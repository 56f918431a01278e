"""A target (ε, δ) of a search for noise, sample rate or steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase import has_slots
from dpsgd_explorer.accounting.core.root_finding import (
    CLOSE,
    SLOW_ROOT_TOLERANCE,
    least_noise,
    near_noise,
    relative_excess,
    unreachable,
)
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from dpsgd_explorer.accounting.registry import accountant_and_relation
from dpsgd_explorer.errors import AccountingError

#: Half of the part of ε that a search may leave over with random allocation, where an
#: evaluation takes a second.
ALLOCATION_CLOSE = 1e-5
Setting = TypeVar("Setting", int, float)


@dataclass(frozen=True)
class Target:
    """The largest ε that may be spent at δ, and the accountant that computes ε.

    Attributes:
        epsilon: Greater than 0.
        delta: In (0, 1).
        accountant: The accountant that computes ε.
        relation: The difference between neighbouring data sets.
        given: ε as the caller wrote it, for error messages.
    """

    epsilon: float
    delta: float
    accountant: Accountant
    relation: NeighboringRelation
    given: object

    @classmethod
    def of(
        cls,
        target_epsilon: float,
        delta: float,
        accountant: str,
        neighboring_relation: str,
    ) -> Target:
        """Returns the target of these arguments.

        Raises:
            AccountingError: an argument is outside its domain.
        """
        chosen, relation = accountant_and_relation(accountant, neighboring_relation)
        epsilon = validation.target_epsilon(target_epsilon)
        terms = (validation.delta(delta), chosen, relation)
        return cls(epsilon, *terms, given=target_epsilon)

    def spent(
        self, accountant: Accountant, phases: Sequence[Phase], steps: int | None = None
    ) -> float:
        """Returns the ε of the phases at δ, of their first ``steps`` steps if given."""
        total = sum(phase.steps for phase in phases) if steps is None else steps
        return float(accountant.epsilons(phases, [total], self.delta, self.relation)[0])

    def log_excess(
        self, accountant: Accountant, phases: Sequence[Phase], steps: int | None = None
    ) -> float:
        """Returns log of spent over target, for the first ``steps`` steps if given."""
        spent = self.spent(accountant, phases, steps)
        return math.log(spent) - math.log(self.epsilon) if spent > 0 else -math.inf

    def least(
        self,
        phases: Callable[[float], list[Phase]],
        start: float = 1.0,
        steepness: float = 1.0,
        *,
        setting: str = "noise",
    ) -> float:
        """Returns the least value of a setting whose phases meet the target.

        Args:
            phases: Function from a value to the phases; ε falls as the value rises.
            start: Value with which the search starts.
            steepness: As for ``least_noise``.
            setting: Name of the setting in an error.

        Raises:
            AccountingError: no value meets the target, or steps have no noise.
        """
        _refuse_noiseless(phases(start))

        def find(searcher: Accountant) -> float:
            return self.least_by(searcher, phases, start, steepness)

        if has_slots(phases(start)):
            value = self._least_allocated(phases, start, steepness)
        else:
            value = self.search(find, lambda x, y: self.spent(x, phases(y)))
        if math.isinf(value):
            nearest = self.spent(self.accountant, phases(MAX_NOISE_MULTIPLIER))
            raise unreachable(self.given, nearest, setting)
        return value

    def _least_allocated(
        self, phases: Callable[[float], list[Phase]], start: float, steepness: float
    ) -> float:
        """Returns the least value for random allocation; infinity if none is enough.

        Args: as for ``least``.
        """
        coarse = self.searchers()[0]
        near = self._near(coarse, phases, start, steepness)
        near = min(near, MAX_NOISE_MULTIPLIER)
        return self._near(self.accountant, phases, near, steepness, ALLOCATION_CLOSE)

    def _near(
        self,
        searcher: Accountant,
        phases: Callable[[float], list[Phase]],
        start: float,
        steepness: float,
        close: float = CLOSE,
    ) -> float:
        """Returns a value that spends almost the whole ε; as ``near_noise``."""
        return near_noise(
            lambda x: self.log_excess(searcher, phases(x)), start, steepness, close
        )

    def searchers(self) -> tuple[Accountant, ...]:
        """Returns the accountants of a search; the last one confirms the result."""
        return self.accountant.searchers(self.relation)

    def least_by(
        self,
        searcher: Accountant,
        phases: Callable[[float], list[Phase]],
        start: float,
        steepness: float,
    ) -> float:
        """Returns the least value by one accountant; infinity if no value is enough."""
        return least_noise(
            lambda x: relative_excess(self.spent(searcher, phases(x)), self.epsilon),
            start,
            SLOW_ROOT_TOLERANCE,
            steepness,
        )

    def search(
        self,
        find: Callable[[Accountant], Setting],
        spent: Callable[[Accountant, Setting], float],
    ) -> Setting:
        """Returns the first setting that the last accountant confirms.

        All other accountants search first; if the last one confirms none of their
        settings, it searches itself.

        Args:
            find: Function from an accountant to the setting that it finds.
            spent: Function from an accountant and a setting to ε.
        """
        *others, last = self.searchers()
        for searcher in others:
            setting = find(searcher)
            if math.isfinite(setting) and spent(last, setting) <= self.epsilon:
                return setting
        return find(last)


def _refuse_noiseless(phases: Sequence[Phase]) -> None:
    """Raises AccountingError if steps have no noise: their ε is infinite."""
    for phase in phases:
        if phase.steps and not phase.noise_multiplier:
            raise AccountingError(
                f"earlier steps must have noise, got {phase}. After steps without "
                "noise, no noise of further steps reaches a target_epsilon.",
                field="before",
            )
