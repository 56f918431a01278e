"""Shuffled batches: both bounds, and a Monte Carlo of shuffled decks."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpsgd_explorer.accounting import (
    AllocationPhase,
    epsilon,
    epsilon_interval,
    gaussian_epsilon,
    shuffled_interval,
)
from dpsgd_explorer.accounting.core.gaussian import deltas_of_mu

DELTA = 1e-5


def bounds(slots, noise, epochs, delta=DELTA):
    return shuffled_interval(
        slots=slots, noise_multiplier=noise, epochs=epochs, delta=delta
    )


def largest_sums(gradient, slots, noise, epochs, runs, rng):
    """Return the largest noisy sum of each epoch, from decks that are shuffled.

    The record has this gradient, the others have -1; [runs, epochs].
    """
    batch = 4
    deck = np.full(slots * batch, -1.0)
    deck[0] = gradient
    decks = np.tile(deck, (runs * epochs, 1))
    sums = rng.permuted(decks, axis=1).reshape(runs, epochs, slots, batch).sum(axis=3)
    return (sums + batch + noise * rng.standard_normal(sums.shape)).max(axis=2)


def losses(largest, slots, noise):
    """Return the privacy loss of all epochs, from the densities of the largest sum."""

    def log_density(shift):
        at, moved = largest / noise, (largest - shift) / noise
        rest = norm.logcdf(at)
        return np.logaddexp(
            norm.logpdf(moved) + (slots - 1) * rest,
            math.log(slots - 1)
            + norm.logpdf(at)
            + norm.logcdf(moved)
            + (slots - 2) * rest,
        )

    return (log_density(2.0) - log_density(1.0)).sum(axis=1)


@pytest.mark.parametrize(("slots", "noise", "epochs"), [(6, 1.0, 1), (5, 1.5, 3)])
def test_a_test_on_shuffled_decks_reaches_the_lower_bound(slots, noise, epochs):
    delta, runs, rng = 0.05, 200_000, np.random.default_rng(8)
    least = bounds(slots, noise, epochs, delta).lower
    with_record, without = (
        losses(largest_sums(x, slots, noise, epochs, runs, rng), slots, noise)
        for x in (1.0, 0.0)
    )
    hits, alarms = (float((x > least).mean()) for x in (with_record, without))
    reached = hits - math.exp(least) * alarms
    error = math.sqrt((hits + math.exp(2 * least) * alarms) / runs)
    assert reached > delta - 4 * error
    assert reached < delta * 1.02 + 4 * error


@pytest.mark.parametrize("noise", [0.4, 0.8, 1.1, 3.0])
@pytest.mark.parametrize("slots", [2, 50, 5000])
def test_one_threshold_on_the_largest_sum_reaches_less(slots, noise):
    """For one epoch, δ of the best threshold is nearly the lower bound."""
    spent = bounds(slots, noise, 1)
    m = np.linspace(0.0, 12 * noise + 2, 20_000)
    logs = [
        norm.logcdf((m - x) / noise) + (slots - 1) * norm.logcdf(m / noise)
        for x in (2.0, 1.0)
    ]
    hits, alarms = (-np.expm1(x) for x in logs)
    reached = (hits - math.exp(spent.lower) * alarms).max()
    poisson = epsilon(
        sample_rate=1 / slots, noise_multiplier=noise, steps=slots, delta=DELTA
    )
    if spent.lower > 1.1 * poisson:  # else random allocation has the larger bound
        assert DELTA * (1 - 1e-6) <= reached <= DELTA * 1.01
    assert spent.lower <= spent.upper


def test_the_upper_bound_is_one_gaussian_step_per_epoch():
    spent = bounds(100, 2.0, 9)
    assert spent.upper == gaussian_epsilon(delta=DELTA, noise_multiplier=2.0, steps=9)
    assert spent.status == "bound"
    single = bounds(1, 1.0, 4)  # all records in each batch
    assert single.lower == pytest.approx(single.upper, rel=1e-3)
    assert single.lower <= single.upper
    at = deltas_of_mu(np.array([single.lower]), 2.0)[0]
    assert at >= DELTA * (1 - 1e-9)


def test_it_is_far_above_poisson_and_never_below_random_allocation():
    poisson = epsilon(sample_rate=1 / 234, noise_multiplier=1.1, steps=234, delta=DELTA)
    assert bounds(234, 1.1, 1).lower > 9 * poisson
    allocated = epsilon_interval(
        [AllocationPhase(slots=10, noise_multiplier=10.0, steps=50)], DELTA
    )
    assert bounds(10, 10.0, 5).lower >= allocated.lower > 0


def test_more_noise_and_fewer_epochs_spend_less():
    lower = [bounds(20, noise, 2).lower for noise in (0.5, 0.7, 1.0, 1.5)]
    assert lower == sorted(lower, reverse=True)
    lower = [bounds(20, 1.0, epochs).lower for epochs in (1, 2, 5, 20)]
    assert lower == sorted(lower)


def test_nothing_done_and_no_noise():
    assert bounds(10, 1.0, 0).upper == 0
    assert bounds(10, 0.0, 3).lower == math.inf
