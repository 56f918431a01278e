"""Guesses are near the answers of long runs, and never outside what may be asked."""

import math

import pytest

from dpsgd_explorer.accounting import noise_multiplier, sample_rate, steps
from dpsgd_explorer.accounting.core.initial_guesses import (
    noise_guess,
    rate_guess,
    steps_guess,
)
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS


@pytest.mark.parametrize("target", [0.5, 2.0, 8.0])
def test_guesses_of_a_long_run_are_near_the_answers(target):
    sigma = noise_multiplier(
        target_epsilon=target, sample_rate=0.02, steps=5_000, delta=1e-5
    )
    assert noise_guess(target, 0.02, 5_000, 1e-5) == pytest.approx(sigma, rel=0.05)
    rate = sample_rate(
        target_epsilon=target, noise_multiplier=sigma, steps=5_000, delta=1e-5
    )
    assert rate_guess(target, sigma, 5_000, 1e-5) == pytest.approx(rate, rel=0.05)
    count = steps(
        target_epsilon=target, sample_rate=0.02, noise_multiplier=sigma, delta=1e-5
    )
    assert steps_guess(target, 0.02, sigma, 1e-5) == pytest.approx(count, rel=0.1)


@pytest.mark.parametrize("target", [1e-12, 1e-3, 1e3])
@pytest.mark.parametrize("sigma", [0.0, 0.01, 1e3])
def test_guesses_are_finite_and_in_their_domain(target, sigma):
    assert 0 < noise_guess(target, 1e-9, 10**9, 1e-300) <= MAX_NOISE_MULTIPLIER
    assert 0 <= rate_guess(target, sigma, 10**9, 0.5) <= 1
    assert math.isfinite(steps_guess(target, 1.0, sigma, 1e-5))


def test_steps_on_the_least_samples_are_as_many_as_may_be():
    assert (
        steps(
            target_epsilon=1e-34, sample_rate=1e-295, noise_multiplier=66.0, delta=1e-5
        )
        == MAX_STEPS
    )
