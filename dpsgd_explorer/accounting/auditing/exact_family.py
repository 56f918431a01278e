"""A lower bound on ε by the exact curve of DP-SGD with less or more noise.

The family holds the run itself with every noise multiplier times a factor s; the run
is of the family, s unknown.  A guesser that no member with factor s or more allows
refutes them, and the ε of the smallest refuted s is proven.  Two tests share the error:

| test | refutes s if | threshold | strong where |
|---|---|---|---|
| planned | TPR - e^t FPR > δ_s(t) | t on the log-likelihood, from the plan | s = 1 |
| chosen | its rates lie below the curve of s | on a fifth of them | noise is missing |

The first is the inequality of (t, δ)-privacy, with equality for the guesser of
threshold t at s = 1 (Neyman and Pearson).  Its left side is a difference of binomial
shares; the confidence bound inverts the exact test on that difference, which is nearer
than bounds on both rates.

The scores of distinct canaries are taken as independent given the coins.

Sources: Nasr et al. (2023), arXiv:2302.07956, section 4, with curves of the composed
subsampled Gaussian in place of one Gaussian; tests with an unknown rate: Berger and
Boos (1994), JASA 89(427).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import scipy

from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.auditing.excess import least_excess
from dpsgd_explorer.accounting.auditing.log_likelihood import moments_of_others
from dpsgd_explorer.accounting.auditing.noise_groups import grouped
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import Phase, different
from dpsgd_explorer.accounting.registry import ACCOUNTANTS

#: False positive rates near which the thresholds of ``usual_thresholds`` lie.
RATES = (0.3, 0.1, 0.03)
#: Factors of the noise that are told apart, and how closely.
LEAST_FACTOR, MOST_FACTOR = 2.0**-6, 2.0**6
FIRST_STRIDE, PRECISION = 1.02, 1.0005
#: Noise multipliers that are evaluated one by one: for the proof, for a first guess.
MOST_GROUPS, FEW_GROUPS = 32, 8
#: The test with a chosen threshold: its share of the error, and of the canaries the
#: threshold is chosen on; quantiles that are tried.
CHOSEN_SHARE = 0.2
CHOSEN_QUANTILES = np.linspace(0.02, 0.98, 49)
#: Values of t at which both its rates are compared, over the largest.
TRIED_SHARES = np.linspace(0.0, 1.0, 16, endpoint=False)


def usual_thresholds(
    phases: Sequence[Phase], relation: NeighboringRelation = ADD_OR_REMOVE_ONE
) -> list[float]:
    """Return thresholds that depend on the plan alone.

    About the shares ``RATES`` of those who did not join lie above them, by the normal
    law with mean and variance of their scores.
    """
    moments = [
        moments_of_others(phase.sample_rate, phase.noise_multiplier, relation=relation)
        for phase in phases
    ]
    counts = [phase.steps for phase in phases]
    mean = sum(n * one for n, (one, _) in zip(counts, moments, strict=True))
    variance = sum(n * one for n, (_, one) in zip(counts, moments, strict=True))
    normal = NormalDist(mean, math.sqrt(variance))
    return [normal.inv_cdf(1 - rate) for rate in RATES]


def exact_family_epsilon(
    scores: Scores,
    thresholds: Sequence[float],
    phases: Sequence[Phase],
    delta: float,
    error: float,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> float:
    """Return a lower bound on the ε of a mechanism that gave these scores.

    Args:
        scores: Log-likelihood ratios of the canaries, over all steps.
        thresholds: Chosen before the scores were seen; each takes its share of
            ``error``.
        phases: The steps, with the noise that was promised.
        delta: δ, above 0.
        error: Probability that the bound is above the true ε, such as 0.05.
        relation: How the canaries' two worlds differ.
    """
    delta, error = validation.delta(delta), validation.share("error", error)
    factor = refuted_factor(scores, thresholds, phases, error, relation)
    return _Family(grouped(phases, MOST_GROUPS, max), relation).epsilon(factor, delta)


def refuted_factor(
    scores: Scores,
    thresholds: Sequence[float],
    phases: Sequence[Phase],
    error: float,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> float:
    """Return the least factor of the noise that is refuted; infinity if none is.

    Args: as for ``exact_family_epsilon``.
    """
    tests = _tests(scores, thresholds, error)
    if not tests:
        return math.inf
    guess = 1.0
    if different(phases) > FEW_GROUPS:
        few = _Family(grouped(phases, FEW_GROUPS, min), relation)
        guess = min(few.least_refuted(tests, guess), MOST_FACTOR)
    refuted = _Family(grouped(phases, MOST_GROUPS, min), relation)
    return refuted.least_refuted(tests, guess)


def least_epsilon(
    phases: Sequence[Phase], delta: float, relation: NeighboringRelation
) -> float:
    """Return the least that the ε of these steps can be."""
    return _Family(phases, relation).epsilon(1.0, delta)


def can_prove(scores: Scores, thresholds: Sequence[float], error: float) -> bool:
    """Return whether so many canaries could prove something, with other scores."""
    above = 1 + max(map(abs, thresholds))
    perfect = Scores(
        np.full(len(scores.members), above), np.full(len(scores.others), -above)
    )
    return bool(_tests(perfect, thresholds, error))


def _tests(
    scores: Scores, thresholds: Sequence[float], error: float
) -> list[_Excess | _Rates]:
    """Return the tests that refute something; all hold together but for an error."""
    planned = error * (1 - CHOSEN_SHARE) / len(thresholds)
    tests: list[_Excess | _Rates] = [
        _Excess(one, least_excess(scores.errors(one), math.exp(one), planned))
        for one in thresholds
    ]
    sample, rest = scores.split(CHOSEN_SHARE)
    rates = rest.errors(clearest_threshold(sample)).at_most(error * CHOSEN_SHARE)
    return [test for test in [*tests, _Rates(*rates)] if test.refutes_guessing]


def clearest_threshold(scores: Scores) -> float:
    """Return the threshold at which these scores tell members from others best.

    Best by the μ of a Gaussian mechanism that the errors prove.
    """
    values = np.concatenate(scores)
    if not len(values):
        return 0.0
    tried = np.quantile(values, CHOSEN_QUANTILES)

    def clearness(threshold: float) -> float:
        false_positives, false_negatives = scores.errors(threshold).at_most(0.1)
        return float(
            -scipy.special.ndtri(false_positives) - scipy.special.ndtri(false_negatives)
        )

    return float(max(tried, key=clearness))


class _Excess(NamedTuple):
    """The true positive rate is ``excess`` above the weighted false positive rate.

    Attributes:
        threshold: Logarithm of the weight.
        excess: At least.
    """

    threshold: float
    excess: float

    @property
    def refutes_guessing(self) -> bool:
        """Whether a guesser that sees nothing has no such excess."""
        return self.excess > max(0.0, 1 - math.exp(self.threshold))

    def refutes(self, run: Sequence[Phase], relation: NeighboringRelation) -> bool:
        """Return whether (|t|, δ)-privacy of the run allows no such excess."""
        exact = ACCOUNTANTS["exact"]
        [bound] = exact.delta_bounds(run, [abs(self.threshold)], relation)
        most = bound.value
        if self.threshold < 0:  # of the opposite guesser
            weight = math.exp(self.threshold)
            most = 1 - weight + weight * most
        return most < self.excess


class _Rates(NamedTuple):
    """Both error rates of a guesser, at most."""

    false_positives: float
    false_negatives: float

    @property
    def refutes_guessing(self) -> bool:
        """Whether a guesser that sees nothing has more errors."""
        return self.false_positives + self.false_negatives < 1

    def refutes(self, run: Sequence[Phase], relation: NeighboringRelation) -> bool:
        """Return whether the run's trade-off curve lies above them.

        It does if TPR - e^t FPR or TNR - e^t FNR is above δ(t) for some t; the last t
        that is tried is the largest at which they are above 0.
        """
        wrong = np.array([self.false_positives, self.false_negatives])
        right = 1 - wrong[::-1]
        losses = np.log(right / wrong)[:, None] * TRIED_SHARES  # [2, T]
        excesses = right[:, None] - np.exp(losses) * wrong[:, None]
        bounds = ACCOUNTANTS["exact"].delta_bounds(run, losses.ravel(), relation)
        allowed = np.array([bound.value for bound in bounds])
        return bool((allowed < excesses.ravel()).any())


class _Family:
    """The run with its noise times a factor."""

    def __init__(self, phases: Sequence[Phase], relation: NeighboringRelation) -> None:
        self._phases, self._relation = phases, relation

    def least_refuted(self, tests: Iterable[_Excess | _Rates], guess: float) -> float:
        """Return the least factor that a test refutes, with all larger ones.

        Args:
            tests: They hold together.
            guess: Where the search starts.

        Returns:
            The factor; infinity if all are allowed.
        """
        least = math.inf
        for test in tests:

            def is_refuted(factor: float, test: _Excess | _Rates = test) -> bool:
                return test.refutes(self._with(factor), self._relation)

            if least == math.inf or is_refuted(least / PRECISION):
                least = min(least, _least(is_refuted, min(least, guess)))
        return least

    def epsilon(self, factor: float, delta: float) -> float:
        """Return the least that ε can be with this factor or a smaller one."""
        steps = sum(phase.steps for phase in self._phases)
        while factor <= MOST_FACTOR:
            [found] = ACCOUNTANTS["exact"].bounds(
                self._with(factor), [steps], delta, self._relation
            )
            if found.lower:
                return found.lower
            factor *= 1.1  # so little noise that nothing is known from below
        return 0.0

    def _with(self, factor: float) -> list[Phase]:
        return [
            replace(phase, noise_multiplier=factor * phase.noise_multiplier)
            for phase in self._phases
        ]


def _least(is_refuted: Callable[[float], bool], guess: float) -> float:
    """Return the least refuted factor; infinity if there is none.

    From the guess on, strides become longer until the least one lies between two.
    """
    low = high = guess
    stride = FIRST_STRIDE
    if is_refuted(guess):
        while is_refuted(low := max(high / stride, LEAST_FACTOR)):
            if low == LEAST_FACTOR:
                return low
            high, stride = low, stride**2
    else:
        while not is_refuted(high := min(low * stride, MOST_FACTOR)):
            if high == MOST_FACTOR:
                return math.inf
            low, stride = high, stride**2
    while high > low * PRECISION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_refuted(middle) else (middle, high)
    return high
