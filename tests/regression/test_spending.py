"""What a descent spends: two of noise, steps and ε give the third, exactly."""

import math

import pytest

from dpsgd_explorer.accounting import gaussian_delta, gaussian_epsilon
from dpsgd_explorer.errors import AccountingError
from dpsgd_explorer.regression.spending import (
    RELEASE_SHARE,
    noise_within,
    rate_noise,
    schedule,
    spent,
    steps_within,
)

DELTA = 1e-6
SCHEDULES = [(500.0, 50_251), (50.0, 502), (3.0, 1), (0.4, 7), (1e5, 3)]


@pytest.mark.parametrize(("noise", "steps"), SCHEDULES)
def test_a_released_rate_and_its_steps_are_one_gaussian(noise, steps):
    rate = rate_noise(noise, steps)
    precision = steps / noise**2 + 1 / rate**2
    assert 1 / rate**2 == pytest.approx(RELEASE_SHARE * precision)
    together = gaussian_epsilon(delta=DELTA, noise_multiplier=1 / math.sqrt(precision))
    found = spent(noise, steps, DELTA, rate)
    assert found == pytest.approx(together, rel=1e-9)
    assert found > spent(noise, steps, DELTA) > 0
    alone = gaussian_epsilon(delta=DELTA, noise_multiplier=rate)
    assert spent(noise, 0, DELTA, rate) == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize(("noise", "steps"), SCHEDULES)
def test_what_is_spent_is_never_below_the_composition(noise, steps):
    """As a sum of the same Gaussian: r = s / 3 is nine steps more."""
    for count in (0, 1, steps):
        found = spent(noise, count, DELTA, noise / 3)
        assert gaussian_delta(
            epsilon=found, noise_multiplier=noise, steps=count + 9
        ) <= DELTA * (1 + 1e-9)


@pytest.mark.parametrize("releases_rate", [False, True])
@pytest.mark.parametrize("target", [0.01, 0.3, 2.0, 40.0])
@pytest.mark.parametrize("steps", [1, 37, 100_000])
def test_each_of_the_three_follows_from_the_other_two(target, steps, releases_rate):
    def all_of(noise, count):
        rate = rate_noise(noise, count) if releases_rate else None
        return spent(noise, count, DELTA, rate)

    noise = noise_within(target, steps, DELTA, releases_rate)
    assert all_of(noise, steps) <= target
    assert all_of(noise * (1 - 1e-7), steps) > target
    rate = {"releases_rate": releases_rate}
    assert schedule(None, steps, target, DELTA, **rate) == (noise, steps)
    assert schedule(noise, None, target, DELTA, **rate) == (noise, steps)
    assert schedule(noise, steps, None, DELTA, **rate) == (noise, steps)
    for count in (1, 5, 300):
        least = noise_within(target, count, DELTA, releases_rate) * 1.01
        most = steps_within(target, least, DELTA, releases_rate)
        assert all_of(least, most) <= target < all_of(least, most + 1)


def test_a_rate_that_is_released_leaves_room_for_fewer_steps():
    kept = steps_within(2.0, 500.0, DELTA)
    left = steps_within(2.0, 500.0, DELTA, releases_rate=True)
    assert left == pytest.approx((1 - RELEASE_SHARE) * kept, abs=1.5)


def test_hardly_any_noise_is_refused_and_with_very_much_none_is_spent():
    with pytest.raises(AccountingError, match="noise_multiplier must be 0 or at least"):
        spent(1e-300, 3, DELTA, 1e-300)
    assert spent(1e9, 3, DELTA, 1e9) == 0.0
