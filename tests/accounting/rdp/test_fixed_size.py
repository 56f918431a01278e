"""Batches of fixed size, drawn without replacement; one record is replaced."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting import dp_event as events
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from scipy.special import logsumexp

from dpsgd_explorer.accounting import (
    Phase,
    gaussian_epsilon,
)
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.single_step import single_step_delta
from dpsgd_explorer.accounting.rdp.fixed_size import (
    fixed_size_divergences,
    fixed_size_rdp_epsilon,
)
from dpsgd_explorer.accounting.rdp.replaced_record import convexity_bound
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import ORDERS
from tests.accounting.curves import arrays

SLACK = 1e-5
RELATION = ADD_OR_REMOVE_ONE
RUNS = [  # batch, records, noise multiplier, steps
    (256, 60_000, 2.2, 14_062),
    (256, 60_000, 1.1, 14_062),
    (145, 10_000, 12.3, 412),
    (244, 1000, 18.6, 412),
    (1, 100, 0.5, 100),
]


def at(order):
    return int(np.flatnonzero(np.isclose(order, ORDERS))[0])


@pytest.mark.parametrize(("size", "of", "sigma", "steps"), RUNS)
def test_it_is_between_what_some_data_spend_and_dp_accounting(size, of, sigma, steps):
    # All other gradients opposite to the record's: a sampled Gaussian, moved by two
    # clipping bounds.
    worst = Phase(size / of, sigma / 2, steps)
    least = arrays(ExactAccountant().bounds([worst], [steps], SLACK)).lower[0]
    ours = fixed_size_rdp_epsilon(size / of, sigma, steps, SLACK)
    theirs = RdpAccountant(
        orders=[*range(2, 64), 128, 256],
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )  # where σ is counted in units of how far a replaced record moves the sum
    gaussian = events.GaussianDpEvent(sigma / 2)
    theirs.compose(events.SampledWithoutReplacementDpEvent(of, size, gaussian), steps)
    assert least <= ours <= theirs.get_epsilon(SLACK)
    assert ours <= 1.45 * least


@pytest.mark.parametrize(("q", "sigma"), [(0.01, 4.0), (0.3, 1.0), (1e-5, 2.0), (1, 3)])
@pytest.mark.parametrize("order", [1.01, 2.5, 16])
def test_a_divergence_is_the_integral_of_the_curve(q, sigma, order):
    # The moment less 1 is α(α - 1) ∫ (e^((α-1)ε) + e^(-αε)) δ(ε) dε over ε > 0.
    nodes, weights = np.polynomial.legendre.leggauss(20)
    top = order * (2 / sigma) ** 2 + 12 * (2 / sigma)
    near, far = np.geomspace(1e-11, 0.1, 60), np.linspace(0.1, top, int(3 * top) + 20)
    edges = np.concatenate([[0.0], near, far[1:]])
    widths = np.diff(edges)[:, None] / 2
    losses = (edges[:-1, None] + widths * (nodes + 1)).ravel()
    with np.errstate(divide="ignore"):
        deltas = [single_step_delta(q, sigma / 2, x, RELATION) for x in losses]
        logs = np.log(deltas) + np.log((widths * weights).ravel())
    logs += np.logaddexp((order - 1) * losses, -order * losses)
    log_excess = logsumexp(logs) + math.log(order * (order - 1))
    truth = np.logaddexp(0, log_excess) / (order - 1)
    assert fixed_size_divergences(q, sigma)[at(order)] == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("others", [(-1, -1, -1), (0, 0, 0), (1, -1, 0.5), (1, 1, 1)])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_data_spend_more(others, size):
    """Every batch of four records is gone through, for a record of 1 or of -1."""
    sigma, z = 1.4, np.arange(-60, 60, 1e-3)

    def log_density(record):
        values = (record, *others)
        batches = list(itertools.combinations(values, size))
        logs = [stats.norm.logpdf(z, sum(batch), sigma) for batch in batches]
        return logsumexp(logs, axis=0) - math.log(len(batches))

    one, two = log_density(1), log_density(-1)
    bound = fixed_size_divergences(size / 4, sigma)
    for order in (1.1, 2.0, 5.0, 12.0):
        for p, q in ((one, two), (two, one)):
            moment = logsumexp(order * p + (1 - order) * q) + math.log(1e-3)
            assert moment / (order - 1) <= bound[at(order)] * (1 + 1e-6)


def test_all_records_in_each_batch_are_a_gaussian():
    divergences = fixed_size_divergences(1.0, 3.0)
    np.testing.assert_allclose(divergences, 2 * ORDERS / 9, rtol=1e-6)
    exact = gaussian_epsilon(delta=SLACK, noise_multiplier=1.5, steps=10)
    assert exact <= fixed_size_rdp_epsilon(1.0, 3.0, 10, SLACK) <= 1.2 * exact


@pytest.mark.parametrize("sigma", [0.06, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("q", [1e-6, 0.02, 0.9])
def test_divergences_rise_with_their_order_below_the_cheap_bound(q, sigma):
    values = fixed_size_divergences(q, sigma)
    assert np.all(np.diff(values[np.argsort(ORDERS)]) >= 0)
    assert np.all(values <= convexity_bound(q, sigma))
    assert np.all(values <= fixed_size_divergences(min(1.1 * q, 1.0), sigma))


def test_fixed_size_without_noise_or_steps():
    assert fixed_size_rdp_epsilon(0.1, 0.0, 1, SLACK) == math.inf
    assert fixed_size_rdp_epsilon(0.1, 1.0, 0, SLACK) == 0
    assert fixed_size_rdp_epsilon(0.1, 1e12, 1, SLACK) == 0
