"""The curve of ε along a planned run."""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.accounting.core.intervals import Interval


@dataclass(frozen=True)
class Preview:
    """What a planned run spends.

    Attributes:
        steps: Some of the numbers of steps that were asked for, the last among them.
        epsilons: ε after each of them, never too small.
        spent: Interval of ε after the last one.
    """

    steps: list[int]
    epsilons: list[float]
    spent: Interval

    def raised_to(self, epsilon: float) -> Preview:
        """Return the same with a larger ε after the last step, a bound."""
        if epsilon <= self.spent.value:
            return self
        spent = Interval.one_sided(epsilon)
        return Preview(self.steps, [*self.epsilons[:-1], epsilon], spent)
