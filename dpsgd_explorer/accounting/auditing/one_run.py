"""Lower bounds on ε from one run, even if the canaries influence each other's scores.

Each of m canaries is a member by a fair coin.  Membership is guessed for r of them, and
v guesses are right.  If the run is (ε, δ)-private, then v is hardly larger than a
binomial number of r trials with success probability e^ε / (1 + e^ε).  If it is f-DP, a
recursion over the trade-off curve bounds v.

Sources: Steinke, Nasr and Jagielski (2023), arXiv:2305.08846, Theorem 5.2; Mahloujifar,
Melis and Chaudhuri (2024), arXiv:2410.22235, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import scipy

from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.binomial import probability_at_least
from dpsgd_explorer.accounting.core.gaussian import epsilon_of_mu

#: Largest ε and μ that are tested.
MAX_EPSILON, MAX_MU = 100.0, 100.0
#: Bisection steps: the result is lower by at most 2^-26 of the largest value.
HALVINGS = 26
NORMAL = NormalDist()


class Guesses(NamedTuple):
    """Guesses about some of the canaries.

    Attributes:
        canaries: Number m of canaries.
        total: Number r of guesses.
        right: Number v of right guesses.
    """

    canaries: int
    total: int
    right: int


def guesses(scores: Scores, count: int) -> Guesses:
    """Guesses that canaries with the highest scores are members, and the lowest not.

    Ties are broken against the guesser, so they never add a right guess.

    Args:
        scores: Scores of the canaries.
        count: Number of guesses, half of them at either end; at most all canaries.
    """
    values = np.concatenate([scores.members, scores.others])
    joined = np.arange(len(values)) < len(scores.members)
    at_end = min(count, len(values)) // 2
    lowest_first = np.lexsort((~joined, values))
    highest_first = np.lexsort((joined, -values))
    right = np.count_nonzero(~joined[lowest_first[:at_end]])
    right += np.count_nonzero(joined[highest_first[:at_end]])
    return Guesses(len(values), 2 * at_end, int(right))


def one_run_epsilon(
    scores: Scores, counts: Sequence[int], delta: float, error: float
) -> float:
    """Returns a lower bound on ε that assumes nothing about the mechanism.

    Args:
        scores: Scores of the canaries.
        counts: Numbers of guesses, chosen before the scores were seen; ``error`` is
            split over them.
        delta: δ, at least 0 and below 1.
        error: Probability that the bound is above the true ε.
    """
    delta = validation.delta(delta) if delta != 0 else 0.0
    share = validation.share("error", error) / len(counts)
    return max(refuted_epsilon(guesses(scores, n), delta, share) for n in counts)


def refuted_epsilon(counted: Guesses, delta: float, error: float) -> float:
    """Returns the largest ε that the right guesses refute; 0 if they refute no ε."""
    return _largest_refuted(
        lambda epsilon: _refutes(counted, epsilon, delta, error), MAX_EPSILON
    )


def _refutes(counted: Guesses, epsilon: float, delta: float, error: float) -> bool:
    """Returns True if the number of right guesses is too improbable under (ε, δ).

    The probability is smallest at δ = 0: if it exceeds the error there, that decides.
    """
    rate = scipy.special.expit(epsilon)
    beta = float(probability_at_least(counted.right, counted.total, rate))
    if counted.right == 0 or beta > error:
        return False
    gaps = np.arange(1, counted.right + 1)
    more = (
        probability_at_least(counted.right - gaps, counted.total, rate) - beta
    ) / gaps
    return beta + 2 * counted.canaries * delta * float(more.max()) <= error


def f_dp_one_run_epsilon(
    scores: Scores, counts: Sequence[int], delta: float, error: float
) -> float:
    """Returns a lower bound on the ε of a Gaussian mechanism.

    Args:
        scores: Scores of the canaries.
        counts: Numbers of guesses, chosen before the scores were seen; ``error`` is
            split over them.
        delta: δ, above 0.
        error: Probability that the bound is above the true ε.
    """
    delta = validation.delta(delta)
    share = validation.share("error", error) / len(counts)
    mu = max(refuted_mu(guesses(scores, count), share) for count in counts)
    return epsilon_of_mu(delta, mu) if mu > 0 else 0.0


def refuted_mu(counted: Guesses, error: float) -> float:
    """Returns the largest μ that the right guesses refute; 0 if they refute no μ."""
    return _largest_refuted(lambda mu: _refutes_mu(counted, mu, error), MAX_MU)


def _refutes_mu(counted: Guesses, mu: float, error: float) -> bool:
    """Returns True if too many guesses are right for the trade-off curve of μ.

    ``right`` and ``wrong`` are the least shares of the canaries that are guessed right
    and wrong when i guesses or more are right.
    """
    if counted.total == 0:
        return False
    right = error * counted.right / counted.canaries
    wrong = error * (counted.total - counted.right) / counted.canaries
    for i in range(counted.right - 1, -1, -1):
        more = max(wrong, _false_share(right, mu))
        right += i / (counted.total - i) * (more - wrong)
        wrong = more
        if right + wrong > counted.total / counted.canaries:
            return True
    return False


def _false_share(true_share: float, mu: float) -> float:
    """Returns the least false positive rate at a true positive rate, for μ."""
    if not 0 < true_share < 1:
        return float(true_share >= 1)
    return NORMAL.cdf(NORMAL.inv_cdf(true_share) - mu)


def _largest_refuted(is_refuted: Callable[[float], bool], most: float) -> float:
    """Returns the largest refuted value from 0 on; 0 if no value is refuted."""
    if not is_refuted(0.0):
        return 0.0
    low, high = 0.0, most
    if is_refuted(high):
        return most
    while high - low > most * math.ldexp(1.0, -HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low
