"""A lower bound on ε by the exact curve of DP-SGD with less or more noise.

The family consists of the planned steps with all noise multipliers times a factor s.
The audited run is in the family, with an unknown s.  If a guesser is better than factor
s allows, it refutes s and all larger factors, and ε of the smallest refuted factor is a
proven lower bound.  Two tests share the error:

| test | refutes s if | threshold | strong if |
|---|---|---|---|
| planned | TPR - e^t FPR > δ_s(t) | t on the log-likelihood, from the plan | s = 1 |
| chosen | both rates are below s's curve | on 1/5 of the canaries | noise is missing |

The first is the inequality of (t, δ)-privacy, with equality for the guesser of
threshold t at s = 1 (Neyman and Pearson).  Its left side is a difference of binomial
proportions; the confidence bound inverts the exact test on that difference, which is
tighter than separate bounds on both rates.

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
from dpsgd_explorer.accounting.core.phase import Phase, count_settings
from dpsgd_explorer.accounting.registry import ACCOUNTANTS

#: False positive rates near which ``usual_thresholds`` are placed.
THRESHOLD_RATES = (0.3, 0.1, 0.03)
#: Smallest and largest noise factor that is tested.
MIN_FACTOR, MAX_FACTOR = 2.0**-6, 2.0**6
#: Ratio of the first two factors of a search, and the ratio at which it ends.
FIRST_STRIDE, LAST_STRIDE = 1.02, 1.0005
#: Largest number of noise multipliers of a run: in the proof, and in a first guess.
MAX_GROUPS, MAX_GUESS_GROUPS = 32, 8
#: Share of the error for the test with a chosen threshold, and share of the canaries on
#: which the threshold is chosen.
CHOSEN_SHARE = 0.2
#: Quantiles of the scores among which the threshold is chosen.
CHOSEN_QUANTILES = np.linspace(0.02, 0.98, 49)
#: Values of t at which the rates of this test are compared, as shares of the largest.
LOSS_SHARES = np.linspace(0.0, 1.0, 16, endpoint=False)


def usual_thresholds(
    phases: Sequence[Phase], relation: NeighboringRelation = ADD_OR_REMOVE_ONE
) -> list[float]:
    """Returns thresholds that depend on the plan alone.

    About the shares ``THRESHOLD_RATES`` of the non-members exceed them, by a normal
    distribution with the mean and variance of the non-members' scores.
    """
    moments = [
        moments_of_others(phase.sample_rate, phase.noise_multiplier, relation=relation)
        for phase in phases
    ]
    counts = [phase.steps for phase in phases]
    mean = sum(n * x for n, (x, _) in zip(counts, moments, strict=True))
    variance = sum(n * x for n, (_, x) in zip(counts, moments, strict=True))
    normal = NormalDist(mean, math.sqrt(variance))
    return [normal.inv_cdf(1 - rate) for rate in THRESHOLD_RATES]


def exact_family_epsilon(
    scores: Scores,
    thresholds: Sequence[float],
    phases: Sequence[Phase],
    delta: float,
    error: float,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> float:
    """Returns a lower bound on the ε of a mechanism that gave these scores.

    Args:
        scores: Log-likelihood ratios of the canaries, over all steps.
        thresholds: Chosen before the scores were seen; ``error`` is split over them.
        phases: The steps, with the promised noise.
        delta: δ, above 0.
        error: Probability that the bound is above the true ε, such as 0.05.
        relation: Neighbouring relation of the canaries.
    """
    delta, error = validation.delta(delta), validation.share("error", error)
    factor = refuted_factor(scores, thresholds, phases, error, relation)
    return _Family(grouped(phases, MAX_GROUPS, max), relation).epsilon(factor, delta)


def refuted_factor(
    scores: Scores,
    thresholds: Sequence[float],
    phases: Sequence[Phase],
    error: float,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> float:
    """Returns the least refuted factor of the noise; infinity if no factor is refuted.

    Args: as for ``exact_family_epsilon``.
    """
    tests = _tests(scores, thresholds, error)
    if not tests:
        return math.inf
    guess = 1.0
    if count_settings(phases) > MAX_GUESS_GROUPS:
        rough = _Family(grouped(phases, MAX_GUESS_GROUPS, min), relation)
        guess = min(rough.least_refuted(tests, guess), MAX_FACTOR)
    family = _Family(grouped(phases, MAX_GROUPS, min), relation)
    return family.least_refuted(tests, guess)


def least_epsilon(
    phases: Sequence[Phase], delta: float, relation: NeighboringRelation
) -> float:
    """Returns a lower bound on ε of the steps."""
    return _Family(phases, relation).epsilon(1.0, delta)


def can_prove(scores: Scores, thresholds: Sequence[float], error: float) -> bool:
    """Returns True if this number of canaries can prove a bound with perfect scores."""
    above = 1 + max(map(abs, thresholds))
    perfect = Scores(
        np.full(len(scores.members), above), np.full(len(scores.others), -above)
    )
    return bool(_tests(perfect, thresholds, error))


def _tests(
    scores: Scores, thresholds: Sequence[float], error: float
) -> list[_Excess | _Rates]:
    """Returns the useful tests; all hold together with probability 1 - error."""
    planned = error * (1 - CHOSEN_SHARE) / len(thresholds)
    tests: list[_Excess | _Rates] = [
        _Excess(t, least_excess(scores.errors(t), math.exp(t), planned))
        for t in thresholds
    ]
    sample, rest = scores.split(CHOSEN_SHARE)
    rates = rest.errors(clearest_threshold(sample)).rate_bounds(error * CHOSEN_SHARE)
    return [test for test in [*tests, _Rates(*rates)] if test.refutes_guessing]


def clearest_threshold(scores: Scores) -> float:
    """Returns the threshold that separates members from others best.

    The best threshold proves the largest μ of a Gaussian mechanism.
    """
    values = np.concatenate(scores)
    if not len(values):
        return 0.0
    candidates = np.quantile(values, CHOSEN_QUANTILES)

    def proven_mu(threshold: float) -> float:
        false_positives, false_negatives = scores.errors(threshold).rate_bounds(0.1)
        return float(
            -scipy.special.ndtri(false_positives) - scipy.special.ndtri(false_negatives)
        )

    return float(max(candidates, key=proven_mu))


class _Excess(NamedTuple):
    """The test by TPR - weight · FPR, the excess of a guesser.

    Attributes:
        threshold: Logarithm of the weight.
        excess: Lower bound on the excess.
    """

    threshold: float
    excess: float

    @property
    def refutes_guessing(self) -> bool:
        """If True, a guesser without any information cannot have this excess."""
        return self.excess > max(0.0, 1 - math.exp(self.threshold))

    def refutes(self, run: Sequence[Phase], relation: NeighboringRelation) -> bool:
        """Returns True if (|t|, δ)-privacy of the run excludes the excess."""
        exact = ACCOUNTANTS["exact"]
        [bound] = exact.delta_bounds(run, [abs(self.threshold)], relation)
        most = bound.value
        if self.threshold < 0:  # the bound for the guesser with opposite answers
            weight = math.exp(self.threshold)
            most = 1 - weight + weight * most
        return most < self.excess


class _Rates(NamedTuple):
    """The test by upper bounds on both error rates of a guesser."""

    false_positives: float
    false_negatives: float

    @property
    def refutes_guessing(self) -> bool:
        """If True, a guesser without any information has larger error rates."""
        return self.false_positives + self.false_negatives < 1

    def refutes(self, run: Sequence[Phase], relation: NeighboringRelation) -> bool:
        """Returns True if both rates are below the run's trade-off curve.

        They are if TPR - e^t FPR or TNR - e^t FNR is above δ(t) for some t.  The tested
        values of t are below the largest t at which the differences are positive.
        """
        wrong = np.array([self.false_positives, self.false_negatives])
        right = 1 - wrong[::-1]
        losses = np.log(right / wrong)[:, None] * LOSS_SHARES  # [2, T]
        excesses = right[:, None] - np.exp(losses) * wrong[:, None]
        bounds = ACCOUNTANTS["exact"].delta_bounds(run, losses.ravel(), relation)
        allowed = np.array([bound.value for bound in bounds])
        return bool((allowed < excesses.ravel()).any())


class _Family:
    """The run with all noise multipliers times a factor."""

    def __init__(self, phases: Sequence[Phase], relation: NeighboringRelation) -> None:
        self._phases, self._relation = phases, relation

    def least_refuted(self, tests: Iterable[_Excess | _Rates], guess: float) -> float:
        """Returns the least factor that a test refutes; all larger ones are refuted.

        Args:
            tests: Tests that hold together.
            guess: Factor with which the search starts.

        Returns:
            The factor; infinity if no factor is refuted.
        """
        least = math.inf
        for test in tests:

            def is_refuted(factor: float, test: _Excess | _Rates = test) -> bool:
                return test.refutes(self._with(factor), self._relation)

            if least == math.inf or is_refuted(least / LAST_STRIDE):
                least = min(least, _least(is_refuted, min(least, guess)))
        return least

    def epsilon(self, factor: float, delta: float) -> float:
        """Returns a lower bound on ε for this factor and all smaller ones."""
        steps = sum(phase.steps for phase in self._phases)
        while factor <= MAX_FACTOR:
            [interval] = ACCOUNTANTS["exact"].bounds(
                self._with(factor), [steps], delta, self._relation
            )
            if interval.lower:
                return interval.lower
            factor *= 1.1  # with very little noise there is no lower bound
        return 0.0

    def _with(self, factor: float) -> list[Phase]:
        return [
            replace(phase, noise_multiplier=factor * phase.noise_multiplier)
            for phase in self._phases
        ]


def _least(is_refuted: Callable[[float], bool], guess: float) -> float:
    """Returns the least refuted factor; infinity if no factor is refuted.

    From the guess on, strides grow until two factors enclose it; then it is bisected.
    """
    low = high = guess
    stride = FIRST_STRIDE
    if is_refuted(guess):
        while is_refuted(low := max(high / stride, MIN_FACTOR)):
            if low == MIN_FACTOR:
                return low
            high, stride = low, stride**2
    else:
        while not is_refuted(high := min(low * stride, MAX_FACTOR)):
            if high == MAX_FACTOR:
                return math.inf
            low, stride = high, stride**2
    while high > low * LAST_STRIDE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_refuted(middle) else (middle, high)
    return high
