import math

import mpmath as mp
import numpy as np
import pytest

from dpsgd_explorer.accounting.rdp.subsampled_gaussian import (
    FRACTIONAL_ORDERS,
    INTEGER_ORDERS,
    MIN_NOISE,
    ORDERS,
    log_excess_fractional,
    log_excess_integer,
    renyi_divergences,
)


def integrated_log_excess(q, sigma, order):
    """log(E[(1 + x)^α] - 1) as it is defined, integrated with 35 digits."""
    with mp.workdps(35):
        q, sigma, order = mp.mpf(q), mp.mpf(sigma), mp.mpf(order)

        def moment(z):
            ratio = mp.exp((2 * z - 1) / (2 * sigma**2))
            return mp.npdf(z, 0, sigma) * (1 - q + q * ratio) ** order

        ends = mp.linspace(-14 * sigma, order + 14 * sigma, 16)
        return float(mp.log(mp.quad(moment, ends) - 1))


CASES = [
    (0.01, 1.0, 1.1),
    (0.5, 5.0, 2.5),
    (0.1, 0.5, 1.5),
    (256 / 60000, 0.7, 3.8),
    (0.999, 2.0, 1.01),
    (1e-5, 0.8, 10.9),
    (1e-6, 1000.0, 4.5),
]


@pytest.mark.parametrize(("q", "sigma", "order"), CASES)
def test_fractional_orders_equal_the_integral(q, sigma, order):
    ours = log_excess_fractional(q, sigma, np.array([order]))[0]
    assert ours == pytest.approx(integrated_log_excess(q, sigma, order), abs=1e-10)


@pytest.mark.parametrize(("q", "sigma"), [(0.01, 1.0), (0.5, 5.0), (1e-6, 1000.0)])
def test_integer_orders_equal_the_integral(q, sigma):
    ours = dict(zip(INTEGER_ORDERS, log_excess_integer(q, sigma), strict=True))
    for order in (2, 7, 20):
        expected = integrated_log_excess(q, sigma, order)
        assert ours[order] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("q", [1e-100, 1e-8, 1e-4, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9])
@pytest.mark.parametrize("sigma", [0.05, 0.08, 0.1, 0.3, 0.7, 1, 2, 5, 100, 1e12])
def test_series_and_trapezoid_rule_agree_where_both_apply(q, sigma):
    low = INTEGER_ORDERS <= 10
    series = log_excess_integer(q, sigma)[low]
    trapezoid = log_excess_fractional(q, sigma, INTEGER_ORDERS[low])
    np.testing.assert_allclose(trapezoid, series, rtol=1e-13, atol=3e-11)


def test_orders_reach_from_near_one_to_1024_without_gap_or_double():
    orders = np.sort(ORDERS)
    assert orders[0] == 1.01
    assert orders[-1] == 1024
    assert len(set(orders)) == len(orders)
    assert np.all(orders[1:] / orders[:-1] < 1.1)


@pytest.mark.parametrize("q", [1e-6, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("sigma", [0.01, 0.3, 1.0, 30.0])
def test_divergences_are_positive_and_rise_with_the_order(q, sigma):
    values = renyi_divergences(q, sigma)[np.argsort(ORDERS)]
    assert values[0] > 0
    assert np.all(np.diff(values) > -1e-13 * values[1:])


def test_without_subsampling_the_divergence_is_that_of_two_gaussians():
    np.testing.assert_allclose(
        renyi_divergences(1.0, 3.0), ORDERS / (2 * 3.0**2), rtol=1e-14
    )


@pytest.mark.parametrize("q", [1e-6, 0.01, 0.5, 0.99])
def test_the_norm_bound_for_little_noise_is_never_below_the_divergence(q):
    just_below = renyi_divergences(q, math.nextafter(MIN_NOISE, 0))
    assert np.all(just_below >= renyi_divergences(q, MIN_NOISE) * (1 - 1e-12))


def test_a_tiny_divergence_keeps_its_digits():
    # For q and 1/σ -> 0: R(α) = α q² / (2 σ²) to first order.
    q, sigma = 1e-9, 1e4
    expected = ORDERS * q**2 / (2 * sigma**2)
    np.testing.assert_allclose(renyi_divergences(q, sigma), expected, rtol=1e-5)


def test_no_noise_is_an_infinite_divergence():
    assert np.all(np.isinf(renyi_divergences(0.5, 0.0)))


def test_what_is_kept_for_the_next_call_cannot_be_changed():
    values = renyi_divergences(0.5, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 0.0


def test_fractional_orders_are_fractional():
    assert np.all(np.round(FRACTIONAL_ORDERS) != FRACTIONAL_ORDERS)
