"""Searches for the noise of steps on tiny samples begin near their ends."""

import math

import pytest

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase
from dpsgd_explorer.accounting.calibration import noise_multiplier
from dpsgd_explorer.accounting.exact.initial_noise import noise_start, steps_start
from tests.accounting.curves import arrays

GUESSED = [(1, 20, 0.5), (7, 300, 8.0), (1, 3000, 3.0), (64, 3000, 0.5), (64, 300, 3.0)]


@pytest.mark.parametrize(("batch", "steps", "target"), GUESSED)
def test_searches_on_tiny_samples_begin_near_their_ends(batch, steps, target):
    rate, relation = batch / 32_561, "add_or_remove_one"
    noise = noise_multiplier(
        target_epsilon=target, sample_rate=rate, steps=steps, delta=1e-5
    )
    start, steepness = noise_start(target, rate, steps, 1e-5, relation)
    assert start == pytest.approx(noise, rel=0.05)
    less = ACCOUNTANTS["exact"].epsilons(
        [Phase(rate, 0.99 * noise, steps)], steps, 1e-5
    )
    slope = math.log(less[0] / target) / math.log(1.01)
    assert 0.4 <= steepness / slope <= 2.5
    count = steps_start(target, rate, noise, 1e-5, relation)
    assert count == pytest.approx(steps, rel=0.35)


def test_noise_for_many_steps_on_tiny_samples_spends_the_target():
    """A line served for some noise only: 0.86 were spent where 3 were allowed."""
    noise = noise_multiplier(
        target_epsilon=3.0, sample_rate=1 / 32_561, steps=3000, delta=1e-5
    )
    found = arrays(
        ACCOUNTANTS["exact"].bounds([Phase(1 / 32_561, noise, 3000)], [3000], 1e-5)
    )
    assert 2.9 < found.lower <= 3.0
