"""Error counts of a guesser, and upper bounds on its error rates.

A canary is a record that joined the training by a fair coin.  The guesser decides from
the canary's score whether it joined.

Source: Clopper and Pearson (1934), Biometrika 26(4).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats


class Scores(NamedTuple):
    """Scores of the canaries, on which the guesses are based.

    Attributes:
        members: Scores of the canaries that joined, [M1]; larger: more like a member.
        others: Scores of the canaries that did not join, [M0].
    """

    members: Floats
    others: Floats

    @classmethod
    def of(cls, scores: Floats, joined: np.typing.NDArray[np.bool_]) -> Scores:
        """Splits the scores, [M], by the coins, [M].

        Raises:
            AccountingError: a score is not a number.
        """
        values = np.asarray(scores, dtype=np.float64)
        if np.ma.is_masked(scores) or np.isnan(values).any():
            validation.refuse("scores", "numbers, none of them missing", scores)
        return cls(values[joined], values[~joined])

    def split(self, share: float) -> tuple[Scores, Scores]:
        """Returns two parts: about this share of the canaries, and the rest."""
        members = round(share * len(self.members))
        others = round(share * len(self.others))
        return (
            Scores(self.members[:members], self.others[:others]),
            Scores(self.members[members:], self.others[others:]),
        )

    def errors(self, threshold: float) -> ErrorCounts:
        """Returns the errors of the guess "joined" for all scores above a threshold."""
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

    def rate_bounds(self, error: float) -> tuple[float, float]:
        """Returns upper bounds on the false positive and the false negative rate.

        Args:
            error: Probability that a rate is above its bound; each gets half of it.
        """
        return (
            largest_rate(self.false_positives, self.others, error / 2),
            largest_rate(self.false_negatives, self.members, error / 2),
        )


def largest_rate(count: int, trials: int, error: float) -> float:
    """Returns the Clopper-Pearson upper bound on a success probability.

    A larger probability gives ``count`` or fewer successes with probability below
    ``error``.

    Args:
        count: Successes.
        trials: Independent trials.
        error: Probability that the bound is too low.
    """
    if count >= trials:
        return 1.0
    return float(scipy.special.betaincinv(count + 1, trials - count, 1 - error))
