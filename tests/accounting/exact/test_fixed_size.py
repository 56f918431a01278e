"""Batches of fixed size from both sides: the largest loss, and data that spend less."""

import math

import numpy as np
import pytest

from dpsgd_explorer.accounting import (
    epsilon,
    fixed_size_epsilon,
    fixed_size_interval,
    gaussian_epsilon,
)
from dpsgd_explorer.accounting.core.loss_distribution import LossDistribution, repeated
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.exact.fixed_size import FixedSizeLoss
from dpsgd_explorer.accounting.exact.single_step import single_step_delta
from dpsgd_explorer.accounting.rdp.fixed_size import (
    fixed_size_divergences,
    fixed_size_rdp_epsilon,
)
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import ORDERS
from tests.in_order import in_order

#: (q, σ, T, δ): ε of the largest curve, and that which some data reach; computed by an
#: implementation of its own, on another lattice.
TRUE = [
    ((256 / 60_000, 1.1, 14_062, 1e-5), 18.454, 14.718),
    ((0.01, 4.0, 10_000, 1e-5), 2.562, 2.163),
    ((0.01, 2.0, 1000, 1e-5), 2.199, 1.828),
    ((0.1, 6.0, 500, 1e-6), 4.055, 3.721),
    ((0.02, 1.5, 50, 1e-6), 3.407, 3.317),
]


@pytest.mark.parametrize(("run", "upper", "lower"), TRUE)
def test_both_sides_are_those_of_another_implementation(run, upper, lower):
    found = in_order(fixed_size_interval, *run)
    assert found.upper == pytest.approx(upper, abs=6e-4)
    assert found.lower == pytest.approx(lower, abs=6e-4)
    assert found.status == "bound"
    assert in_order(fixed_size_epsilon, *run) == found.upper
    assert found.upper < fixed_size_rdp_epsilon(*run)
    q, sigma, steps, delta = run
    assert found.lower == pytest.approx(
        epsilon(sample_rate=q, noise_multiplier=sigma / 2, steps=steps, delta=delta),
        rel=1e-6,
    )


@pytest.mark.parametrize("run", [(0.1, 6.0, 32, 1e-6), (0.02, 1.5, 16, 1e-5)])
def test_the_upper_side_is_that_of_convolutions_one_by_one(run):
    """Connect-the-dots losses, convolved directly: above, by the square of a grid."""
    q, sigma, steps, delta = run
    width = in_order(fixed_size_epsilon, *run) / 2000
    losses = width * np.arange(6000)
    curve = FixedSizeLoss(q, sigma).deltas(losses)
    single = LossDistribution.two_tailed(width, curve, curve)
    direct = repeated(single, steps, 1e-16).epsilon(delta)
    assert in_order(fixed_size_epsilon, *run) == pytest.approx(direct, rel=2e-3)


@pytest.mark.parametrize("loss", [0.0, 0.3, 2.0])
def test_the_curve_is_the_steps_and_its_own_mirror_image(loss):
    q, sigma = 0.05, 1.6
    step = FixedSizeLoss(q, sigma)
    [above, below] = step.deltas(np.array([loss, -loss]))
    assert above == pytest.approx(
        single_step_delta(q, sigma / 2, loss, ADD_OR_REMOVE_ONE), rel=1e-12
    )
    assert below == pytest.approx(1 - math.exp(-loss) * (1 - above), rel=1e-12)


@pytest.mark.parametrize(("q", "sigma"), [(0.05, 1.6), (1e-4, 0.5), (0.3, 20.0)])
def test_cumulants_are_renyis_moments_and_their_derivatives(q, sigma):
    """K(α - 1) = (α - 1) R(α): two quadratures of one integral."""
    orders = np.array([1.5, 2.0, 3.0, 8.0, 20.0])
    step, places = FixedSizeLoss(q, sigma), [list(ORDERS).index(x) for x in orders]
    values, slopes, curvatures = step.cumulants(orders - 1)
    renyi = fixed_size_divergences(q, sigma)[places]
    assert values == pytest.approx((orders - 1) * renyi, rel=1e-7)
    nudge = 1e-4 * (orders - 1)
    above, below = (step.cumulants(orders - 1 + x) for x in (nudge, -nudge))
    assert slopes == pytest.approx((above[0] - below[0]) / (2 * nudge), rel=1e-4)
    bend = (above[1] - below[1]) / (2 * nudge)
    assert curvatures == pytest.approx(bend, rel=1e-4)


def test_ends_of_the_domain():
    assert (
        fixed_size_interval(
            sample_rate=0.1, noise_multiplier=0.0, steps=1, delta=1e-5
        ).value
        == math.inf
    )
    assert (
        fixed_size_interval(
            sample_rate=0.1, noise_multiplier=1.0, steps=0, delta=1e-5
        ).value
        == 0
    )
    full = fixed_size_interval(
        sample_rate=1.0, noise_multiplier=3.0, steps=10, delta=1e-5
    )
    assert full.status == "exact"
    assert full.value == pytest.approx(
        gaussian_epsilon(delta=1e-5, noise_multiplier=1.5, steps=10)
    )
    one = fixed_size_interval(
        sample_rate=0.1, noise_multiplier=1.0, steps=1, delta=1e-5
    )
    assert one.status == "exact"
    little = fixed_size_interval(
        sample_rate=0.1, noise_multiplier=0.15, steps=5, delta=1e-5
    )
    assert little.lower <= little.upper == fixed_size_rdp_epsilon(0.1, 0.15, 5, 1e-5)
