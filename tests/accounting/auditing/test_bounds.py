"""Lower bounds on ε: below the truth, near it, and above it where noise is missing."""

import math

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer.accounting import Phase, epsilon, noise_multiplier
from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.auditing.exact_family import (
    exact_family_epsilon,
    usual_thresholds,
)
from dpsgd_explorer.accounting.auditing.gaussian import (
    gaussian_dp_epsilon,
    gaussian_pair_epsilon,
)
from dpsgd_explorer.accounting.auditing.one_run import (
    Guesses,
    f_dp_one_run_epsilon,
    guesses,
    one_run_epsilon,
    refuted_epsilon,
    refuted_mu,
)
from dpsgd_explorer.accounting.core.gaussian import (
    epsilon_of_mu,
    gaussian_noise_multiplier,
)
from dpsgd_explorer.accounting.core.neighboring_relation import REPLACE_ONE
from tests.accounting.auditing.canaries import gaussian, simulated

DELTA, ERROR = 1e-5, 0.05
LONG = pytest.mark.long("long statistics")
SIDES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # shares of the canaries that are guessed


def counts(scores):
    total = len(scores.members) + len(scores.others)
    return [int(share * total) for share in SIDES]


def best_of_counts(bound, scores):
    return max(bound(scores, [count], DELTA, ERROR) for count in counts(scores))


BOUNDS = {
    "Gaussian DP": lambda s, mu: gaussian_dp_epsilon(s, [mu / 2], DELTA, ERROR),
    "Gaussian pair": lambda s, mu: gaussian_pair_epsilon(s, DELTA, ERROR),
    "f-DP, one run": lambda s, _: best_of_counts(f_dp_one_run_epsilon, s),
    "one run": lambda s, _: best_of_counts(one_run_epsilon, s),
}


@pytest.mark.parametrize(
    ("true_epsilon", "canaries", "expected"),
    [
        # Steinke et al., Mahloujifar et al., Clopper-Pearson, pair: the order in which
        # the papers came, with ever tighter bounds.
        (4.0, 1000, (1.42, 2.13, 3.12, 3.52)),
        (4.0, 5000, (2.18, 2.79, 3.42, 3.78)),
        (8.0, 5000, (3.50, 5.23, 7.36, 7.75)),
    ],
)
def test_bounds_are_about_those_of_an_independent_simulation(
    true_epsilon, canaries, expected
):
    mu = 1 / gaussian_noise_multiplier(epsilon=true_epsilon, delta=DELTA)
    runs = [gaussian(mu, canaries // 2, canaries // 2, seed) for seed in range(4)]
    names = ("one run", "f-DP, one run", "Gaussian DP", "Gaussian pair")
    for name, other in zip(names, expected, strict=True):
        mean = np.mean([BOUNDS[name](scores, mu) for scores in runs])
        assert mean == pytest.approx(other, rel=0.2), name


@pytest.mark.parametrize("name", BOUNDS)
def test_scores_that_say_nothing_prove_nothing(name):
    scores = gaussian(0.0, 400, 400, 1)
    assert BOUNDS[name](scores, 1.0) == 0.0


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("size", [(0, 0), (0, 3), (3, 0), (1, 1)], ids=str)
def test_too_few_canaries_prove_nothing(name, size):
    assert BOUNDS[name](gaussian(9.0, *size, 1), 1.0) == 0.0
    phase = Phase(0.5, 1.0, 3)
    assert (
        exact_family_epsilon(
            gaussian(9.0, *size, 1), usual_thresholds([phase]), [phase], DELTA, ERROR
        )
        == 0.0
    )


def test_all_right_is_the_largest_epsilon_that_so_many_coins_explain():
    """With δ = 0 and v = r the refuted ε are those with p^r at most the error."""
    scores = Scores(np.arange(10, 50.0), np.arange(-50, -10.0))
    found = one_run_epsilon(scores, [80], 0.0, ERROR)
    p = ERROR ** (1 / 80)
    assert found == pytest.approx(math.log(p / (1 - p)), rel=1e-5)


def evenly_spread(mean):
    """Return 10,000 quantiles of N(mean, 1)."""
    return mean + stats.norm.ppf((np.arange(10_000) + 0.5) / 10_000)


@pytest.mark.parametrize(
    ("shift", "thresholds", "made", "right", "expected"),
    [
        (1, 386, 3376, 2807, 1.13346),
        (2, 374, 4666, 4499, 2.311945),
        (4, 140, 8233, 8223, 4.395568),
    ],
)
def test_one_run_is_that_of_another_library(shift, thresholds, made, right, expected):
    """jax-privacy's auditor at δ = 1e-6, 95 %, in its own test.

    It guesses that the highest scores are members', at each threshold that is a corner
    of the ROC curve, and shares the error among them; ``made`` is its best number.
    """
    scores = np.concatenate([evenly_spread(shift), evenly_spread(0)])
    highest = np.argsort(-scores, kind="stable")[:made]
    assert np.count_nonzero(highest < 10_000) == right
    found = refuted_epsilon(Guesses(20_000, made, right), 1e-6, ERROR / thresholds)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("shift", "thresholds", "made", "right", "expected"),
    [
        (1, 386, 406, 379, 2.164749),
        (2, 374, 938, 934, 4.7218075),
        (4, 140, 5436, 5436, 9.133752),
    ],
)
def test_f_dp_one_run_is_that_of_another_library(
    shift, thresholds, made, right, expected
):
    """As above."""
    scores = np.concatenate([evenly_spread(shift), evenly_spread(0)])
    highest = np.argsort(-scores, kind="stable")[:made]
    assert np.count_nonzero(highest < 10_000) == right
    mu = refuted_mu(Guesses(20_000, made, right), ERROR / thresholds)
    assert epsilon_of_mu(1e-6, mu) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("right", [0, 1, 250, 331, 400])
def test_one_run_tries_what_may_still_be_refuted(monkeypatch, right):
    """Every trial took the probabilities of all numbers of right guesses."""
    made, delta, share = Guesses(2000, 400, right), 1e-6, 0.01
    tail, sizes = stats.binom.sf, []

    def chance(epsilon):
        success = 1 / (1 + math.exp(-epsilon))
        beta = tail(right - 1, 400, success)
        gaps = np.arange(1, right + 1)
        more = (tail(right - 1 - gaps, 400, success) - beta) / gaps
        return beta + 2 * made.canaries * delta * more.max(initial=0.0)

    def counting(successes, *rest):
        sizes.append(np.size(successes))
        return tail(successes, *rest)

    monkeypatch.setattr(stats.binom, "sf", counting)
    found = refuted_epsilon(made, delta, share)
    whole = sum(size > 1 for size in sizes)
    assert whole <= 0.75 * (len(sizes) - whole)
    if found:
        assert chance(found) <= share < chance(found + 1e-5)
    else:
        assert chance(1e-9) > share


def test_guesses_are_made_at_both_ends_and_ties_lose():
    scores = Scores(np.array([3.0, 2.0, 1.0]), np.array([2.0, 1.0, 0.0]))
    assert guesses(scores, 2) == Guesses(6, 2, 2)
    assert guesses(scores, 4) == Guesses(6, 4, 2)
    assert guesses(scores, 99) == Guesses(6, 6, 4)


@pytest.mark.parametrize(
    ("q", "steps", "true_epsilon", "share"),
    [
        (1.0, 50, 4.0, 0.85),
        pytest.param(0.1, 60, 4.0, 0.85, marks=LONG),
        pytest.param(0.1, 60, 1.0, 0.5, marks=LONG),
    ],
)
def test_the_exact_family_proves_most_of_what_was_promised(
    q, steps, true_epsilon, share
):
    sigma = noise_multiplier(
        target_epsilon=true_epsilon, sample_rate=q, steps=steps, delta=DELTA
    )
    phase = Phase(q, sigma, steps)
    found = [
        exact_family_epsilon(
            simulated(phase, 10_000, seed),
            usual_thresholds([phase]),
            [phase],
            DELTA,
            ERROR,
        )
        for seed in range(4)
    ]
    assert share * true_epsilon < np.mean(found)
    # All four are above the truth with probability 6e-6 at most; seeds are fixed.
    assert sum(one > true_epsilon for one in found) < 2


def test_replaced_records_are_told_apart_twice_as_far():
    phase = Phase(0.2, 3.0, 60)
    promised = epsilon(
        sample_rate=0.2,
        noise_multiplier=3.0,
        steps=60,
        delta=DELTA,
        neighboring_relation="replace_one",
    )
    scores = simulated(phase, 10_000, 3, relation=REPLACE_ONE)
    laid = usual_thresholds([phase], REPLACE_ONE)
    found = exact_family_epsilon(scores, laid, [phase], DELTA, ERROR, REPLACE_ONE)
    assert 0.7 * promised < found < promised


@pytest.mark.parametrize(
    "noise", [0.5, pytest.param(0.8, marks=LONG), pytest.param(0.1, marks=LONG)]
)
def test_missing_noise_is_proven_where_the_promise_is_exceeded(noise):
    phase = Phase(0.2, 2.0, 60)
    promised = epsilon(sample_rate=0.2, noise_multiplier=2.0, steps=60, delta=DELTA)
    scores = simulated(phase, 10_000, 4, noise=noise)
    proven = exact_family_epsilon(
        scores, usual_thresholds([phase]), [phase], DELTA, ERROR
    )
    assert proven > promised
    assert proven < epsilon(
        sample_rate=0.2, noise_multiplier=noise * 2.0, steps=60, delta=DELTA
    )


@LONG
def test_phases_of_unlike_settings_are_one_family():
    phases = [Phase(0.1, 1.5, 20), Phase(0.3, 3.0, 20)]
    parts = [simulated(phase, 8_000, seed) for seed, phase in enumerate(phases)]
    members = min(len(part.members) for part in parts)
    others = min(len(part.others) for part in parts)
    scores = Scores(
        sum(part.members[:members] for part in parts),
        sum(part.others[:others] for part in parts),
    )
    laid = usual_thresholds(phases)
    found = exact_family_epsilon(scores, laid, phases, DELTA, ERROR)
    alone = max(
        exact_family_epsilon(part, usual_thresholds([phase]), [phase], DELTA, ERROR)
        for part, phase in zip(parts, phases, strict=True)
    )
    assert found > alone


def test_perfect_separation_is_proven_up_to_what_the_count_allows():
    mu = 30.0
    scores = gaussian(mu, 500, 500, 7)
    found = gaussian_dp_epsilon(scores, [mu / 2], DELTA, ERROR)
    rate = 1 - (ERROR / 2) ** (1 / 500)
    assert found == pytest.approx(epsilon_of_mu(DELTA, 2 * stats.norm.isf(rate)))
