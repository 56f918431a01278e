"""Cross-check with Google's dp-accounting, a library of its own."""

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase, delta, epsilon
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import (
    INTEGER_ORDERS,
    ORDERS,
    renyi_divergences,
)

RUNS = [
    (256 / 60_000, 1.1, 14_062, 1e-5),
    (0.01, 4.0, 10_000, 1e-5),
    (0.08192, 3.0, 2500, 1e-5),
    (0.2, 1.5, 50, 1e-6),
    (1.0, 10.0, 100, 1e-5),
]


def peer(phases, orders):
    accountant = RdpAccountant(orders)
    for q, sigma, steps in phases:
        step = dp_accounting.PoissonSampledDpEvent(
            q, dp_accounting.GaussianDpEvent(sigma)
        )
        accountant.compose(step, steps)
    return accountant


@pytest.mark.parametrize(("q", "sigma", "steps", "at_delta"), RUNS)
def test_epsilon_is_theirs_on_integer_orders_or_better(q, sigma, steps, at_delta):
    theirs = peer([(q, sigma, steps)], [int(order) for order in INTEGER_ORDERS])
    bound = theirs.get_epsilon(at_delta)
    ours = epsilon(
        sample_rate=q,
        noise_multiplier=sigma,
        steps=steps,
        delta=at_delta,
        accountant="rdp",
    )
    assert bound * 0.97 <= ours <= bound * (1 + 1e-12)


@pytest.mark.parametrize(("q", "sigma", "steps", "at_delta"), RUNS)
@pytest.mark.parametrize("order", [2, 10, 60, 1024])
def test_each_integer_order_gives_their_epsilon(q, sigma, steps, at_delta, order):
    at = list(ORDERS).index(order)
    offset = peer([(1.0, 1.0, 1)], [order]).get_epsilon(at_delta) - order / 2
    ours = steps * renyi_divergences(q, sigma)[at] + offset
    theirs = peer([(q, sigma, steps)], [order]).get_epsilon(at_delta)
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_two_phases_compose_as_theirs():
    phases = [(0.01, 1.2, 500), (0.03, 2.0, 300)]
    orders = [int(order) for order in INTEGER_ORDERS if order < 40]
    theirs = peer(phases, orders).get_epsilon(1e-5)
    ours = ACCOUNTANTS["rdp"].epsilons([Phase(*p) for p in phases], [800], 1e-5)[0]
    assert theirs * 0.99 <= ours <= theirs * (1 + 1e-12)


@pytest.mark.parametrize("loss", [0.0, 0.5, 2.0])
def test_delta_is_theirs_or_better(loss):
    orders = [int(order) for order in INTEGER_ORDERS if order < 100]
    theirs = peer([(0.01, 1.5, 2000)], orders).get_delta(loss)
    ours = delta(
        sample_rate=0.01,
        noise_multiplier=1.5,
        steps=2000,
        epsilon=loss,
        accountant="rdp",
    )
    assert theirs * 0.8 <= ours <= theirs * (1 + 1e-12)
