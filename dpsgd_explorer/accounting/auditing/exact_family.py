"""A lower bound on ε by the exact curve of DP-SGD with less or more noise.

The family holds the run itself with every noise multiplier times a factor s; the run
is of the family, s unknown.  A guesser that no member with factor s or more allows
refutes them, and the ε of the smallest refuted s is proven.  Two tests share the error:

| test | refutes s if | threshold | strong where |
|---|---|---|---|
| planned | TPR - e^t FPR > δ_s(t) | t on the log-likelihood, from the plan | s = 1 |
| chosen | TPR > trade-off curve of s at FPR | on a fifth of them | noise is missing |

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
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from scipy import stats

from dpsgd_explorer.accounting.auditing.error_rates import (
    ErrorCounts,
    Scores,
    largest_rate,
)
from dpsgd_explorer.accounting.auditing.log_likelihood import moments_of_others
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.intervals import Floats
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.registry import ACCOUNTANTS

#: False positive rates near which the thresholds of ``usual_thresholds`` lie.
RATES = (0.3, 0.1, 0.03)
#: Factors of the noise that are told apart, and how often their range is halved.
LEAST_FACTOR, MOST_FACTOR = 2.0**-6, 2.0**6
FACTOR_HALVINGS = 14
#: The test with a chosen threshold: its share of the error, and of the canaries the
#: threshold is chosen on; quantiles that are tried.
CHOSEN_SHARE = 0.2
CHOSEN_QUANTILES = np.linspace(0.02, 0.98, 49)
#: Confidence bounds: share of the error for the unknown rate, pieces of its interval.
RATE_SHARE, RATE_PIECES = 0.02, 64
EXCESS_HALVINGS = 24
NEGLECTED = 1e-12  # probability of counts that are not summed, on either side


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
    family = _Family(phases, relation)
    planned = error * (1 - CHOSEN_SHARE) / len(thresholds)
    factors = [
        family.refuted_by_excess(
            one, least_excess(scores.errors(one), math.exp(one), planned)
        )
        for one in thresholds
    ]
    sample, rest = scores.split(CHOSEN_SHARE)
    rates = rest.errors(clearest_threshold(sample)).at_most(error * CHOSEN_SHARE)
    factors.append(family.refuted_by_rates(*rates))
    return family.epsilon(min(factors), delta)


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
        return float(-stats.norm.ppf(false_positives) - stats.norm.ppf(false_negatives))

    return float(max(tried, key=clearness))


class _Family:
    """The run with its noise times a factor."""

    def __init__(self, phases: Sequence[Phase], relation: NeighboringRelation) -> None:
        self._phases, self._relation = phases, relation
        self._exact = ACCOUNTANTS["exact"]

    def refuted_by_excess(self, threshold: float, excess: float) -> float:
        """Return the least factor that allows no such excess; infinity: none does.

        Args:
            threshold: Logarithm of the weight of false positives.
            excess: What the true positive rate is above the weighted false one.
        """
        return _least(lambda factor: self._most_excess(factor, threshold) < excess)

    def refuted_by_rates(self, false_positives: float, false_negatives: float) -> float:
        """Return the least factor that allows no such error rates; infinity: none."""
        if false_positives + false_negatives >= 1:
            return math.inf
        rate = np.array([false_positives])

        def is_refuted(factor: float) -> bool:
            [most] = self._exact.trade_off(self._with(factor), rate, self._relation)
            return most.value < 1 - false_negatives

        return _least(is_refuted)

    def _most_excess(self, factor: float, threshold: float) -> float:
        """Return the most that a guesser can have; below 0, of the opposite guesser."""
        [bound] = self._exact.delta_bounds(
            self._with(factor), [abs(threshold)], self._relation
        )
        if threshold >= 0:
            return bound.value
        weight = math.exp(threshold)
        return 1 - weight + weight * bound.value

    def epsilon(self, factor: float, delta: float) -> float:
        """Return the least that ε can be with this factor or a smaller one."""
        steps = sum(phase.steps for phase in self._phases)
        while factor < math.inf:
            [found] = self._exact.bounds(
                self._with(factor), [steps], delta, self._relation
            )
            if found.lower is not None:
                return found.lower
            factor *= 1.1  # so little noise that only upper bounds are known
        return 0.0

    def _with(self, factor: float) -> list[Phase]:
        return [
            replace(phase, noise_multiplier=factor * phase.noise_multiplier)
            for phase in self._phases
        ]


def _least(is_refuted: Callable[[float], bool]) -> float:
    """Return the least refuted factor, with all larger ones; infinity: none."""
    if not is_refuted(MOST_FACTOR):
        return math.inf
    low, high = LEAST_FACTOR, MOST_FACTOR
    for _ in range(FACTOR_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_refuted(middle) else (middle, high)
    return high


def least_excess(counts: ErrorCounts, weight: float, error: float) -> float:
    """Return a lower bound on true positive rate - weight · false positive rate.

    Args:
        counts: Errors of a guesser.
        weight: Of the false positive rate, above 0.
        error: Probability that the bound is too high.
    """
    if not counts.members or not counts.others:
        return -math.inf
    most = (1 - counts.false_negatives / counts.members) - weight * (
        counts.false_positives / counts.others
    )
    unknown = RATE_SHARE * error
    rates = np.linspace(
        1
        - largest_rate(
            counts.others - counts.false_positives, counts.others, unknown / 2
        ),
        largest_rate(counts.false_positives, counts.others, unknown / 2),
        RATE_PIECES + 1,
    )
    low, high = -weight, most
    for _ in range(EXCESS_HALVINGS):
        middle = (low + high) / 2
        chance = _chance(counts, weight, most, middle, rates) + unknown
        low, high = (middle, high) if chance <= error else (low, middle)
    return low


def _chance(
    counts: ErrorCounts, weight: float, found: float, excess: float, rates: Floats
) -> float:
    """Return the probability of so large a difference of shares, at most.

    Within each piece of the false positive rate, fewer false positives than at its end
    and more true ones are assumed.

    Args:
        counts: Numbers of canaries.
        weight: Of the false positive rate.
        found: The difference that was counted.
        excess: The true difference.
        rates: Ends of the pieces of the false positive rate, rising, [R + 1].
    """
    others = stats.binom(counts.others, rates[:-1, None])
    hits = np.clip(excess + weight * rates[1:, None], 0.0, 1.0)
    first = others.ppf(NEGLECTED)
    width = int((others.isf(NEGLECTED) - first).max()) + 1
    wrong = first + np.arange(width)  # [R, W]
    # Rounding must not make a count that is just enough seem too small.
    needed = np.ceil(counts.members * (found + weight * wrong / counts.others) - 1e-9)
    right = stats.binom.sf(needed - 1, counts.members, hits)
    chances = (others.pmf(wrong) * right).sum(axis=1)
    return float(chances.max()) + 2 * NEGLECTED
