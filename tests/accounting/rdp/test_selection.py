"""The price of releasing the best of a random number of trials."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.special import gammaln, logsumexp

from dpsgd_explorer.accounting import (
    Phase,
    RdpCurve,
    best_of_pure_trials,
    best_of_trials,
)
from dpsgd_explorer.accounting.rdp.selection import trial_parameter
from dpsgd_explorer.errors import AccountingError

ORDERS = [1.5, 2.0, 3.0, 5.0, 9.0, 20.0, 64.0]
SHAPES = [0.0, 0.5, 1.0, 3.0, math.inf]


def chances(mean, shape, most=20_000):
    """Return P(K = k) for k = 0 ... most."""
    k = np.arange(most + 1)
    if math.isinf(shape):
        return np.exp(k * math.log(mean) - mean - gammaln(k + 1))
    log_stay = math.log1p(-trial_parameter(mean, shape))
    with np.errstate(invalid="ignore"):
        logs = k * log_stay + gammaln(k + shape) - gammaln(k + 1)
    logs[0] = -np.inf
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.parametrize("shape", SHAPES[:-1])
@pytest.mark.parametrize("mean", [1.01, 3.0, 50.0])
def test_the_parameter_gives_the_mean(mean, shape):
    p = chances(mean, shape)
    assert p @ np.arange(len(p)) == pytest.approx(mean, rel=1e-6)


def test_a_geometric_number_stops_with_its_parameter():
    assert trial_parameter(20.0) == pytest.approx(0.05, rel=1e-9)
    assert trial_parameter(20.0) <= 0.05
    assert trial_parameter(1.0, 2.0) == pytest.approx(1.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.0, 10.0, 300.0])
def test_it_is_what_dp_accounting_says(mean, shape):
    theirs = RdpAccountant(ORDERS)
    one = dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(2.0))
    run = dp_accounting.SelfComposedDpEvent(one, 300)
    single = RdpAccountant(ORDERS)
    single.compose(run)
    theirs.compose(dp_event.RepeatAndSelectDpEvent(run, mean, shape))
    ours = best_of_trials(RdpCurve(ORDERS, single._rdp), mean_trials=mean, shape=shape)
    for slack in (1e-5, 1e-8):
        # Theirs leaves λ' = 1 out, and for Poisson that R rises with its order.
        bound = theirs.get_epsilon(slack) * (1 + 1e-6)
        assert 0.9 * bound <= ours.epsilon(slack) <= bound


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [2.0, 15.0])
def test_the_best_of_two_outcomes_is_within_the_bound(mean, shape):
    p = chances(mean, shape)
    orders = np.array(ORDERS)

    def divergences(here, there):
        """Return Rényi's, the larger of both directions, from logs of chances."""
        pairs = [(here, there), (there, here)]
        logs = [
            [logsumexp(order * a + (1 - order) * b) for order in orders]
            for a, b in pairs
        ]
        return np.max(logs, axis=0) / (orders - 1)

    def selected(good):
        """Return logs of the chances that the best is good, is bad, and is none."""
        none_good = p @ (1 - good) ** np.arange(len(p))
        chance = [p[1:] @ (1 - good) ** np.arange(1, len(p)), 1 - none_good, p[0]]
        return np.log([x for x in chance if x > 0])

    for good, other in [(0.01, 0.02), (0.3, 0.2), (0.002, 0.0005)]:
        one = divergences(np.log([good, 1 - good]), np.log([other, 1 - other]))
        best = divergences(selected(good), selected(other))
        bound = best_of_trials(RdpCurve(orders, one), mean_trials=mean, shape=shape)
        assert np.all(best <= bound.divergences)


@pytest.mark.parametrize("shape", [0.0, 1.0, 2.5])
def test_pure_privacy_is_the_limit_of_large_orders(shape):
    pure = RdpCurve([1e9], [0.3])
    limit = best_of_trials(pure, mean_trials=100.0, shape=shape).divergences[0]
    assert best_of_pure_trials(epsilon=0.3, shape=shape) == pytest.approx(
        limit, rel=1e-6
    )
    assert best_of_pure_trials(epsilon=0.3) == pytest.approx(0.9)  # Liu and Talwar's 3ε


def test_one_trial_costs_one_trial_and_more_cost_more():
    trial = RdpCurve.of([Phase(0.01, 1.5, 1000)])
    spent = [
        best_of_trials(trial, mean_trials=mean).epsilon(1e-5)
        for mean in (1.0, 2.0, 8.0, 64)
    ]
    assert spent == sorted(spent)
    # γ = 1: the constant is the least (1 + η) (1 - 1/λ') R(λ'), which is not 0.
    assert trial.epsilon(1e-5) <= spent[0] <= 1.01 * trial.epsilon(1e-5)
    assert spent[-1] < 3 * trial.epsilon(1e-5)


@pytest.mark.parametrize("mean", [0.5, -1, math.nan, math.inf, "two"])
def test_a_mean_is_one_trial_or_more(mean):
    with pytest.raises(AccountingError, match="mean_trials must be"):
        best_of_trials(RdpCurve([2], [0.1]), mean_trials=mean)


@pytest.mark.parametrize("shape", [-0.5, math.nan, 1e9, "poisson"])
def test_a_shape_is_not_negative(shape):
    with pytest.raises(AccountingError, match="shape must be"):
        best_of_trials(RdpCurve([2], [0.1]), mean_trials=2.0, shape=shape)


def test_a_poisson_number_has_no_pure_bound():
    with pytest.raises(AccountingError, match="shape must be finite"):
        best_of_pure_trials(epsilon=0.1, shape=math.inf)
    with pytest.raises(AccountingError, match="shape must be finite"):
        trial_parameter(2.0, math.inf)
