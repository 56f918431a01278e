"""The bounds that serve at little noise: never too small, not far above the truth."""

import math

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)
from dpsgd_explorer.accounting.core.phase import StepCounts
from dpsgd_explorer.accounting.exact.fallback_bounds import (
    MAX_REVEALING_NOISE,
    fallback_deltas,
    fallback_epsilons,
)
from dpsgd_explorer.accounting.exact.phases import MIN_NOISE
from dpsgd_explorer.accounting.queries import epsilon_interval

DELTA = 1e-5
RUNS = [(0.01, 100), (0.001, 1000), (0.1, 10), (0.5, 40), (1e-5, 1000), (0.3, 2)]
RUN = pytest.mark.parametrize(("rate", "steps"), RUNS)


def bound(rate, noise, steps, relation=ADD_OR_REMOVE_ONE):
    run = StepCounts.whole([Phase(rate, noise, steps)], relation)
    return float(fallback_epsilons(run, DELTA)[0])


def told(rate, noise, steps, epsilon, moves=1):
    """Return δ if the number of joined steps is known, term by term."""
    return sum(
        stats.binom.pmf(k, steps, rate)
        * delta_of_mu(epsilon, math.sqrt(k) * moves / noise)
        for k in range(1, steps + 1)
    )


@RUN
@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
@pytest.mark.parametrize("noise", [0.1, 0.15, 0.25, 0.39])
def test_the_bounds_are_not_below_the_exact_answer(rate, steps, relation, noise):
    exact = epsilon_interval(
        [Phase(rate, noise, steps)], DELTA, neighboring_relation=relation
    )
    assert bound(rate, noise, steps, relation) >= exact.lower


def most_jump(rate, steps):
    """Return the ratio that knowing the joins can make: each costs up to log(1 / q)."""
    joins = max(1, stats.binom.isf(DELTA, steps, rate))
    gain = joins * math.log(1 / rate)
    spent = joins / (2 * MIN_NOISE**2)
    return 1.01 * spent / (spent - gain)


@RUN
def test_epsilon_does_not_jump_where_the_integrals_end(rate, steps):
    """It jumped by 17.5 % for 100 steps at rate 0.01; told joins cost log 1/q each."""
    above, below = (
        epsilon_interval([Phase(rate, MIN_NOISE * share, steps)], DELTA)
        for share in (1, 0.999)
    )
    assert above.value <= below.value <= above.value * most_jump(rate, steps)


@RUN
@pytest.mark.parametrize("noise", [0.01, 0.05, 0.09])
def test_the_bound_of_told_joins_is_its_sum_term_by_term(rate, steps, noise):
    epsilon = bound(rate, noise, steps)
    assert told(rate, noise, steps, epsilon * (1 + 1e-9)) <= DELTA * (1 + 1e-9)
    assert told(rate, noise, steps, epsilon * 0.99) > DELTA
    run = StepCounts.whole([Phase(rate, noise, steps)], ADD_OR_REMOVE_ONE)
    deltas = fallback_deltas(run, np.array([0.5, 1, 2]) * epsilon)
    for share, found in zip([0.5, 1, 2], deltas, strict=True):
        most = told(rate, noise, steps, share * epsilon)  # others may be below it
        assert found <= max(1.3 * most, 1e-12)


@RUN
def test_more_noise_never_has_a_larger_bound(rate, steps):
    noises = [1e-90, 0.001, 0.01, 0.05, 0.0999, 0.2, 0.399, MAX_REVEALING_NOISE, 0.5]
    bounds = [bound(rate, noise, steps) for noise in noises]
    assert bounds == sorted(bounds, reverse=True)


def test_few_terms_serve_a_billion_steps():
    assert 0 < bound(0.01, 0.05, 10**9) < math.inf
    assert bound(1e-9, 0.05, 10**9) <= bound(1e-8, 0.05, 10**9)
