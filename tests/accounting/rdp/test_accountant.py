import math

import numpy as np
import pytest

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase, epsilon, epsilon_curve
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase import StepCounts
from dpsgd_explorer.accounting.rdp.accountant import (
    RdpAccountant,
    composed_divergences,
    delta_from_rdp,
    epsilon_from_rdp,
    total_variation,
)
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import ORDERS, renyi_divergences


def test_divergences_of_phases_add_up_step_by_step():
    phases = [Phase(0.01, 1.0, 10), Phase(0.02, 2.0, 5), Phase(1.0, 50.0, 3)]
    one, two, three = (
        renyi_divergences(p.sample_rate, p.noise_multiplier) for p in phases
    )
    run = StepCounts.along(phases, [0, 10, 12, 18], ADD_OR_REMOVE_ONE)
    ours = composed_divergences(run)
    expected = [0 * one, 10 * one, 10 * one + 2 * two, 10 * one + 5 * two + 3 * three]
    np.testing.assert_allclose(ours, expected, rtol=1e-14)


def test_conversion_of_a_single_order_is_the_formula():
    # Only order 2 says anything: ε = R + log(1 - 1/2) - log(2 δ) / (2 - 1).
    rdp = np.where(ORDERS == 2, 0.3, math.inf)
    expected = 0.3 + math.log(0.5) - math.log(2e-5)
    assert epsilon_from_rdp(rdp, 1e-5) == pytest.approx(expected, rel=1e-14)
    assert delta_from_rdp(rdp, expected) == pytest.approx(1e-5, rel=1e-12, abs=0)


def test_epsilon_is_zero_once_total_variation_is_within_delta():
    # R = 1e-8: total variation <= √(1 - e^-R) = 1e-4.
    rdp = np.full_like(ORDERS, 1e-8)
    assert total_variation(rdp) == pytest.approx(1e-4, rel=1e-6)
    assert epsilon_from_rdp(rdp, 1.01e-4) == 0
    assert delta_from_rdp(rdp, 0.0) <= 1.0001e-4


def test_total_variation_is_never_below_that_of_two_gaussians():
    # N(0, σ²) and N(1, σ²): erf(1 / (2 √2 σ)).
    for sigma in (0.3, 1.0, 10.0, 1000.0):
        exact = math.erf(1 / (2 * math.sqrt(2) * sigma))
        assert total_variation(renyi_divergences(1.0, sigma)) >= exact


def test_a_long_curve_is_cut_into_parts_that_fit_together():
    steps = list(range(2 * RdpAccountant.max_rows + 7))
    curve = epsilon_curve(
        sample_rate=0.01,
        noise_multiplier=1.1,
        delta=1e-5,
        steps=steps,
        accountant="rdp",
    )
    assert len(curve) == len(steps)
    assert curve == sorted(curve)
    second = RdpAccountant.max_rows + 1
    assert curve[second] == epsilon(
        sample_rate=0.01,
        noise_multiplier=1.1,
        steps=second,
        delta=1e-5,
        accountant="rdp",
    )


def test_it_calls_itself_a_bound():
    assert ACCOUNTANTS["rdp"].status == "bound"
