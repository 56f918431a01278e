"""Error rates of an attack at every threshold, their intervals, and the limit by ε.

The positives are the records that the attacker calls members.  Intervals follow
Clopper and Pearson (1934), Biometrika 26(4).  They assume independent calls, and
records of one model are only nearly independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsgd_explorer.accounting.auditing.error_rates import Scores, largest_rate
from dpsgd_explorer.audit.attacks.membership import Bools, Floats
from dpsgd_explorer.errors import ConfigError

ERROR = 0.05  # of an interval, half on either side

NDArrayInt = NDArray[np.int64]
Ceiling = Callable[[Floats], Floats]  # largest true positive rates, [F] -> [F]


@dataclass(frozen=True)
class Roc:
    """The errors of an attack at every threshold, the strictest first.

    Attributes:
        false_positives: Others that are called members, [K].
        true_positives: Members that are called so, [K].
        others: Records that are no members.
        members: Those that are.
    """

    false_positives: NDArrayInt
    true_positives: NDArrayInt
    others: int
    members: int

    @classmethod
    def of(cls, scores: Floats, joined: Bools) -> Roc:
        """Return the errors of calling members what scores at least a threshold.

        Shapes: scores [R], joined [R]; K counts the scores that differ, and the
        threshold above all of them.

        Raises:
            AccountingError: a score is not a number.
            ConfigError: there is no member, or nothing but members.
        """
        members, others = Scores.of(scores, joined)
        if not len(members) or not len(others):
            raise ConfigError(
                "joined",
                "joined: an attack must have members and non-members, got "
                f"{len(members)} and {len(others)}.",
            )
        thresholds = np.unique(scores)[::-1]
        return cls(
            _at_least(others, thresholds),
            _at_least(members, thresholds),
            len(others),
            len(members),
        )

    @property
    def false_positive_rates(self) -> Floats:
        """Share of the non-members that are called members, [K]."""
        return self.false_positives / self.others

    @property
    def true_positive_rates(self) -> Floats:
        """Share of the members that are called members, [K]."""
        return self.true_positives / self.members

    @property
    def area(self) -> float:
        """Area below the curve: how often a member outscores another; 1/2 by chance."""
        found = np.trapezoid(self.true_positive_rates, self.false_positive_rates)
        return float(found)

    def at(self, rate: float) -> int:
        """Return the place of the last threshold with at most this share of errors."""
        place = np.searchsorted(self.false_positive_rates, rate, side="right")
        return int(place) - 1

    def interval(self, place: int) -> tuple[float, float]:
        """Return the interval of the true positive rate at a threshold."""
        return interval(int(self.true_positives[place]), self.members)

    def above(self, ceiling: Ceiling) -> tuple[int, int]:
        """Return at how many thresholds the rates are above the most that is allowed.

        Returns:
            Number of thresholds above the ceiling, and the number among them that
            chance does not explain: there the lower end of the interval of the true
            positive rate is above the ceiling at the upper end of the interval of the
            false positive rate.
        """
        measured = self.true_positive_rates > ceiling(self.false_positive_rates)
        places = np.flatnonzero(measured).tolist()
        if not places:
            return 0, 0
        least = [self.interval(place)[0] for place in places]
        most = [interval(int(self.false_positives[i]), self.others)[1] for i in places]
        beyond = np.array(least) > ceiling(np.array(most))
        return len(places), int(beyond.sum())


def interval(count: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate, from its successes among the trials."""
    low = 1 - largest_rate(trials - count, trials, ERROR / 2)
    return low, largest_rate(count, trials, ERROR / 2)


def _at_least(scores: Floats, thresholds: Floats) -> NDArrayInt:
    """Return how many scores reach each threshold, and 0 first; [K]."""
    ordered = np.sort(scores)
    reached = len(ordered) - np.searchsorted(ordered, thresholds, side="left")
    return np.concatenate([[0], reached])
