"""The score of a canary is the privacy loss of the dominating pair."""

import numpy as np
import pytest
from scipy import integrate, stats

from dpsgd_explorer.accounting import epsilon
from dpsgd_explorer.accounting.auditing.log_likelihood import (
    log_likelihood_ratio,
    moments_of_others,
)
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)

STEPS = [(1.0, 2.0, 1.0), (0.3, 0.8, 1.0), (0.01, 1.5, 0.5)]


def densities(x, q, sigma, length, relation):
    def one(center):
        away = stats.norm.pdf(x, center, sigma)
        return (1 - q) * stats.norm.pdf(x, 0, sigma) + q * away

    others = one(-length) if relation is REPLACE_ONE else stats.norm.pdf(x, 0, sigma)
    return one(length), others


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE], ids=str)
@pytest.mark.parametrize(("q", "sigma", "length"), STEPS)
def test_it_is_the_ratio_of_the_densities(q, sigma, length, relation):
    x = np.linspace(-4, 5, 40)
    members, others = densities(x, q, sigma, length, relation)
    ratio = log_likelihood_ratio(x, q, sigma, length, relation)
    np.testing.assert_allclose(ratio, np.log(members / others), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE], ids=str)
@pytest.mark.parametrize(("q", "sigma", "length"), STEPS)
def test_moments_are_those_of_the_integral(q, sigma, length, relation):
    def moment(power, center=0.0):
        def integrand(x):
            _, others = densities(x, q, sigma, length, relation)
            [ratio] = log_likelihood_ratio(np.array([x]), q, sigma, length, relation)
            return others * (ratio - center) ** power

        return integrate.quad(integrand, -30, 30, limit=400, points=[-1, 0, 1])[0]

    mean = moment(1)
    expected = (mean, moment(2, mean))
    found = moments_of_others(q, sigma, length, relation)
    assert found == pytest.approx(expected, rel=1e-6)


def test_an_enormous_release_has_a_finite_ratio():
    x = np.array([-1e6, 1e6])
    ratio = log_likelihood_ratio(x, 0.01, 0.01)
    assert np.isfinite(ratio).all()
    assert ratio[0] == pytest.approx(np.log(0.99))


def test_the_expected_excess_of_the_loss_is_delta():
    """E[(1 - e^(ε - L))+] over members is δ(ε), for "remove" of a single step."""
    q, sigma = 0.2, 1.0
    delta = 1e-3
    eps = epsilon(sample_rate=q, noise_multiplier=sigma, steps=1, delta=delta)

    def excess(x):
        members, _ = densities(x, q, sigma, 1.0, ADD_OR_REMOVE_ONE)
        [ratio] = log_likelihood_ratio(np.array([x]), q, sigma)
        return members * max(0.0, -np.expm1(eps - ratio))

    found = integrate.quad(excess, -20, 20, limit=400, points=[2, 3, 4])[0]
    assert found == pytest.approx(delta, rel=1e-4)
