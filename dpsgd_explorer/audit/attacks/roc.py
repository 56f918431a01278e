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

#: Error probability of an interval, half of it on either side.
INTERVAL_ERROR = 0.05

NDArrayInt = NDArray[np.int64]
Ceiling = Callable[[Floats], Floats]  # largest true positive rates, (F,) -> (F,)


@dataclass(frozen=True)
class Roc:
    """The errors of a membership attack at every threshold, the strictest first.

    Shapes: K thresholds; the first is above all scores.

    Source: Carlini, Chien, Nasr, Song, Terzis and Tramèr (2022), arXiv:2112.03570, on
    rates at few false positives; Clopper and Pearson (1934), Biometrika 26(4), on
    intervals.

    Attributes:
        false_positives: Number of non-members called members, ``(K,)``.
        true_positives: Number of members called members, ``(K,)``.
        others: Number of non-members.
        members: Number of members.

    Example:
        >>> import numpy as np
        >>> scores = np.array([5.0, 4.0, 4.0, 3.0, 2.0, 1.0])
        >>> joined = np.array([True, True, False, True, False, False])
        >>> roc = Roc.of(scores, joined)
        >>> roc
        Roc(3 members, 3 others, 6 thresholds, area 0.833)
        >>> roc.true_positives
        array([0, 1, 2, 3, 3, 3])
        >>> index = roc.at(rate=0.0)  # no false positive
        >>> low, high = roc.interval(index)
        >>> print(f"{roc.true_positive_rates[index]:.2f}, {low:.2f} to {high:.2f}")
        0.33, 0.01 to 0.91

        The rates may be compared with the largest rates that (ε, δ) allows:

        >>> roc.above(lambda rates: np.minimum(1, np.exp(1.0) * rates + 1e-5))
        (2, 0)
    """

    false_positives: NDArrayInt
    true_positives: NDArrayInt
    others: int
    members: int

    def __repr__(self) -> str:
        return (
            f"Roc({self.members} members, {self.others} others, "
            f"{len(self.true_positives)} thresholds, area {self.area:.3f})"
        )

    @classmethod
    def of(cls, scores: Floats, joined: Bools) -> Roc:
        """Returns the errors of calling a record a member from some score on.

        Args:
            scores: Scores of the records, ``(R,)``; larger for members.
            joined: If True, the record is a member, ``(R,)``.

        Returns:
            Errors at K thresholds: each different score, and one above all scores.

        Raises:
            AccountingError: A score is not a number.
            ConfigError: There is no member, or there are only members.
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
        """Share of the non-members that are called members, ``(K,)``."""
        return self.false_positives / self.others

    @property
    def true_positive_rates(self) -> Floats:
        """Share of the members that are called members, ``(K,)``."""
        return self.true_positives / self.members

    @property
    def area(self) -> float:
        """Area below the curve: how often a member outscores another; 1/2 by chance."""
        area = np.trapezoid(self.true_positive_rates, self.false_positive_rates)
        return float(area)

    def at(self, rate: float) -> int:
        """Returns the index of the last threshold with a given false positive rate.

        Args:
            rate: Largest false positive rate, from 0 to 1.
        """
        index = np.searchsorted(self.false_positive_rates, rate, side="right")
        return int(index) - 1

    def interval(self, index: int) -> tuple[float, float]:
        """Returns the 95% interval of the true positive rate at a threshold.

        Args:
            index: Index of the threshold, from 0 to K - 1.
        """
        return interval(int(self.true_positives[index]), self.members)

    def above(self, ceiling: Ceiling) -> tuple[int, int]:
        """Returns the number of thresholds at which the rates are above a ceiling.

        Args:
            ceiling: Function from false positive rates ``(F,)`` to the largest allowed
                true positive rates ``(F,)``.

        Returns:
            Number of thresholds above the ceiling, and the number among them that
            chance does not explain: there the lower end of the interval of the true
            positive rate is above the ceiling at the upper end of the interval of the
            false positive rate.
        """
        measured = self.true_positive_rates > ceiling(self.false_positive_rates)
        above = np.flatnonzero(measured).tolist()
        if not above:
            return 0, 0
        least = [self.interval(i)[0] for i in above]
        most = [interval(int(self.false_positives[i]), self.others)[1] for i in above]
        beyond = np.array(least) > ceiling(np.array(most))
        return len(above), int(beyond.sum())


def interval(count: int, trials: int) -> tuple[float, float]:
    """Returns the 95% interval of a rate, from the number of successes and trials."""
    low = 1 - largest_rate(trials - count, trials, INTERVAL_ERROR / 2)
    return low, largest_rate(count, trials, INTERVAL_ERROR / 2)


def _at_least(scores: Floats, thresholds: Floats) -> NDArrayInt:
    """Returns 0, then the number of scores that reach each threshold, ``(K,)``."""
    ordered = np.sort(scores)
    reached = len(ordered) - np.searchsorted(ordered, thresholds, side="left")
    return np.concatenate([[0], reached])
