"""A record that is replaced, as every accountant counts it."""

import math

import mpmath as mp
import numpy as np
import pytest

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase, delta, epsilon
from dpsgd_explorer.accounting.core.neighboring_relation import REPLACE_ONE
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.single_step import single_step_epsilon
from dpsgd_explorer.accounting.rdp.replaced_record import (
    convexity_bound,
    divergence_bounds,
    replaced_divergences,
)
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import MIN_NOISE, ORDERS
from dpsgd_explorer.accounting.theorems.per_step_epsilon import step_epsilons
from tests.accounting.curves import arrays
from tests.in_order import in_order

RUNS = [  # sample rate, noise multiplier, steps, delta
    (256 / 60_000, 1.1, 14_062, 1e-5),
    (0.01, 4.0, 10_000, 1e-5),
    (0.3, 0.5, 20, 1e-6),
    (1e-4, 0.6, 3, 1e-7),
    (0.9, 20.0, 500, 1e-9),
    (0.05, 0.06, 2, 1e-5),
    (1e-5, 2.0, 100_000, 1e-6),
]
SAMPLED = Phase(0.5, 1.0, 1)
BOUNDS = [
    name
    for name, one in ACCOUNTANTS.items()
    if one.status != "approximation" and not one.why_not([SAMPLED])
]


@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("steps", [1, 100])
def test_without_sampling_the_sensitivity_is_twice_as_large(name, steps):
    run = (steps, 1e-5, name)
    assert in_order(epsilon, 1.0, 20.0, *run, REPLACE_ONE) == pytest.approx(
        in_order(epsilon, 1.0, 10.0, *run), rel=1e-9
    )
    loss = in_order(epsilon, 1.0, 10.0, *run)
    assert delta(
        sample_rate=1.0,
        noise_multiplier=20.0,
        steps=steps,
        epsilon=loss,
        accountant=name,
        neighboring_relation=REPLACE_ONE,
    ) == pytest.approx(
        delta(
            sample_rate=1.0,
            noise_multiplier=10.0,
            steps=steps,
            epsilon=loss,
            accountant=name,
        ),
        rel=1e-9,
    )


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("run", RUNS)
def test_a_bound_is_never_below_the_exact_lower_side(name, run):
    q, sigma, steps, slack = run
    phase = Phase(q, sigma, steps)
    truth = arrays(
        ExactAccountant().bounds([phase], [steps], slack, REPLACE_ONE)
    ).lower[0]
    spent = in_order(epsilon, *run, name, REPLACE_ONE)
    assert spent >= truth
    assert spent >= in_order(epsilon, *run, name) * (1 - 1e-9)
    if 0 < spent < math.inf:
        back = delta(
            sample_rate=q,
            noise_multiplier=sigma,
            steps=steps,
            epsilon=spent,
            accountant=name,
            neighboring_relation=REPLACE_ONE,
        )
        assert back <= slack * (1 + 1e-6)


@pytest.mark.parametrize("run", RUNS[:2])
def test_renyi_is_as_near_to_the_exact_value_as_for_an_added_record(run):
    exact = in_order(epsilon, *run, "exact", REPLACE_ONE)
    assert exact <= in_order(epsilon, *run, "rdp", REPLACE_ONE) <= 1.1 * exact
    assert in_order(epsilon, *run, "rdp", REPLACE_ONE) < in_order(
        epsilon, *run, "moments", REPLACE_ONE
    )


def test_the_central_limit_is_near_the_exact_value_of_many_steps():
    run = (0.001, 1.0, 10**6, 1e-5)
    exact = in_order(epsilon, *run, "exact", REPLACE_ONE)
    assert in_order(epsilon, *run, "gdp", REPLACE_ONE) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize(("q", "sigma"), [(1e-6, 2.0), (0.02, 0.8), (0.7, 3.0)])
@pytest.mark.parametrize("order", [1.01, 2.5, 17, 256])
def test_a_divergence_is_its_integral(q, sigma, order):
    with mp.workdps(40):
        rate, s, a = mp.mpf(q), mp.mpf(sigma), mp.mpf(order)

        def ratio(v):
            return 1 - rate + rate * mp.exp((v - 1 / (2 * s)) / s)

        def integrand(v):
            return ratio(v) ** a * ratio(-v) ** (1 - a) * mp.npdf(v)

        step, reach = min(s, mp.mpf(1)) / 8, mp.mpf(12)
        first, last = int(-(reach + 1 / s) / step), int((2 * a / s + reach) / step)
        total = sum(integrand(k * step) for k in range(first, last + 1)) * step
        truth = float(mp.log(total) / (a - 1))
    [place] = np.flatnonzero(np.isclose(order, ORDERS))
    assert replaced_divergences(q, sigma)[place] == pytest.approx(truth, rel=1e-7)
    assert replaced_divergences(q, sigma)[place] >= truth


@pytest.mark.parametrize(("q", "sigma"), [(0.01, 1.0), (0.6, 0.3), (1e-5, 4.0)])
def test_the_cheap_bounds_are_none_too_small(q, sigma):
    assert np.all(replaced_divergences(q, sigma) <= divergence_bounds(q, sigma))
    assert np.all(np.diff(replaced_divergences(q, sigma)[np.argsort(ORDERS)]) >= 0)
    just_below = replaced_divergences(q, math.nextafter(MIN_NOISE, 0))
    assert np.all(just_below >= replaced_divergences(q, MIN_NOISE))


def test_the_amplified_step_is_a_bound_on_the_exact_one():
    deltas = np.array([1e-12, 1e-8, 1e-4, 0.003])
    for q, sigma in [(0.01, 1.0), (0.3, 0.6), (0.9, 5.0)]:
        bound = step_epsilons(Phase(q, sigma / 2, 1), deltas)
        exact = [single_step_epsilon(q, sigma, slack, REPLACE_ONE) for slack in deltas]
        assert np.all(bound * (1 + 1e-9) >= exact)


# The exact accountant's bound was 8,792 here, 25 times that of a noise of 0.1.
@pytest.mark.parametrize("q", [1e-6, 0.01, 0.5, 0.99])
@pytest.mark.parametrize("sigma", [0.0999, 0.05])
@pytest.mark.parametrize("steps", [2, 100, 10**6])
def test_below_the_least_noise_renyis_bound_serves(q, sigma, steps):
    spent = epsilon(
        sample_rate=q,
        noise_multiplier=sigma,
        steps=steps,
        delta=1e-5,
        accountant="exact",
        neighboring_relation=REPLACE_ONE,
    )
    assert spent <= 1.01 * epsilon(
        sample_rate=q,
        noise_multiplier=sigma,
        steps=steps,
        delta=1e-5,
        accountant="rdp",
        neighboring_relation=REPLACE_ONE,
    )
    assert spent >= epsilon(
        sample_rate=q,
        noise_multiplier=0.1,
        steps=steps,
        delta=1e-5,
        accountant="exact",
        neighboring_relation=REPLACE_ONE,
    )
    assert spent >= epsilon(
        sample_rate=q,
        noise_multiplier=sigma,
        steps=1,
        delta=1e-5,
        accountant="exact",
        neighboring_relation=REPLACE_ONE,
    )
    assert delta(
        sample_rate=q,
        noise_multiplier=sigma,
        steps=steps,
        epsilon=spent,
        accountant="exact",
        neighboring_relation=REPLACE_ONE,
    ) <= 1e-5 * (1 + 1e-6)


@pytest.mark.parametrize("sigma", [1e5, 1e8, 1.7e11])
@pytest.mark.parametrize("q", [1e-9, 0.02, 0.68])
def test_divergences_of_much_noise_keep_their_digits(q, sigma):
    with mp.workdps(60):
        moments = [mp.expm1(2 * x * (x - 1) / mp.mpf(sigma) ** 2) for x in ORDERS]
        truth = [
            float(mp.log1p(q * moment) / (x - 1))
            for x, moment in zip(ORDERS, moments, strict=True)
        ]
    np.testing.assert_allclose(convexity_bound(q, sigma), truth, rtol=1e-12)
