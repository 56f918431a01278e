"""Errors of a guesser, and the most that they may be in the long run.

A canary is a record that joined the training by a fair coin; a guess says from its
score whether it did.

Source: Clopper and Pearson (1934), Biometrika 26(4).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats


class Scores(NamedTuple):
    """What the guesser sees.

    Attributes:
        members: Scores of the canaries that joined, [M1]; larger: more like a member.
        others: Scores of those that did not, [M0].
    """

    members: Floats
    others: Floats

    @classmethod
    def of(cls, scores: Floats, joined: np.typing.NDArray[np.bool_]) -> Scores:
        """Split the scores, [M], by the coins, [M].

        Raises:
            AccountingError: a score is not a number.
        """
        values = np.asarray(scores, dtype=np.float64)
        if np.ma.is_masked(scores) or np.isnan(values).any():
            validation.refuse("scores", "numbers, none of them missing", scores)
        return cls(values[joined], values[~joined])

    def split(self, share: float) -> tuple[Scores, Scores]:
        """Return about this share of the canaries, and the rest."""
        members = round(share * len(self.members))
        others = round(share * len(self.others))
        return (
            Scores(self.members[:members], self.others[:others]),
            Scores(self.members[members:], self.others[others:]),
        )

    def errors(self, threshold: float) -> ErrorCounts:
        """Return the errors of the guess "joined" for all scores above a threshold."""
        return ErrorCounts(
            int(np.count_nonzero(self.others > threshold)),
            len(self.others),
            int(np.count_nonzero(self.members <= threshold)),
            len(self.members),
        )


class ErrorCounts(NamedTuple):
    """Errors of one guesser.

    Attributes:
        false_positives: Guesses "joined" that are wrong, of ``others``.
        others: Canaries that did not join.
        false_negatives: Guesses "did not join" that are wrong, of ``members``.
        members: Canaries that joined.
    """

    false_positives: int
    others: int
    false_negatives: int
    members: int

    def at_most(self, error: float) -> tuple[float, float]:
        """Return bounds on both rates, that hold together but for an error probability.

        Args:
            error: Probability that a rate is above its bound; half for each.
        """
        return (
            largest_rate(self.false_positives, self.others, error / 2),
            largest_rate(self.false_negatives, self.members, error / 2),
        )


def largest_rate(count: int, trials: int, error: float) -> float:
    """Return the largest success probability that explains so few successes.

    A larger one gives ``count`` or fewer successes with probability below ``error``.

    Args:
        count: Successes.
        trials: Independent trials.
        error: Probability that the bound is too low.
    """
    if count >= trials:
        return 1.0
    return float(scipy.special.betaincinv(count + 1, trials - count, 1 - error))
