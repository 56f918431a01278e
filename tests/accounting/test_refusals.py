"""What is refused says what is wrong, and what is known is not left open."""

import numpy as np
import pytest

from dpsgd_explorer.accounting import (
    Odometer,
    noise_multiplier,
    trade_off,
)
from dpsgd_explorer.accounting import epsilon as spent
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.root_finding import least_noise
from dpsgd_explorer.accounting.queries import (
    epsilon_intervals,
)
from dpsgd_explorer.accounting.trade_off_curves import trade_off_intervals
from tests.accounting.curves import arrays


@pytest.mark.parametrize("steps", [1, 3, 30])
@pytest.mark.parametrize("sigma", [0.2, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5])
def test_optimal_composition_is_never_above_basic(steps, sigma, delta):
    """39.4328 was "optimal" where adding up gave 39.3910."""
    for rate in (0.01, 1.0):
        best, plain = (
            spent(
                sample_rate=rate,
                noise_multiplier=sigma,
                steps=steps,
                delta=delta,
                accountant=name,
            )
            for name in ("optimal", "basic")
        )
        assert best <= plain * (1 + 1e-12)


def test_without_noise_every_record_that_takes_part_is_found():
    alarms = [0.0, 0.3, 1.0]
    full = arrays(trade_off_intervals([Phase(1.0, 0.0, 1)], alarms))
    assert full.lower.tolist() == full.upper.tolist() == [1.0] * 3
    some = arrays(trade_off_intervals([Phase(0.1, 0.0, 2)], alarms))
    assert some.lower == pytest.approx(0.19 + 0.81 * np.array(alarms))
    assert some.upper.tolist() == [1.0] * 3
    assert (full.status, some.status) == ("exact", "bound")
    assert (
        trade_off(
            sample_rate=1.0, noise_multiplier=0.0, steps=1, false_positive_rates=alarms
        )
        == [1.0] * 3
    )


def of_different_noise(count, times=1):
    odometer = Odometer()
    for _ in range(times):
        for noise in np.linspace(5, 50, count):
            odometer.add_dp_sgd(0.01, float(noise), 1)
    return odometer


def test_the_library_answers_for_any_number_of_different_phases():
    """A request to the site may ask for 3,000 at most: see web/questions/limits."""
    many = of_different_noise(3001)
    assert len(many.phases) == 3001
    assert 0 < many.epsilon(1e-5) < many.epsilon(1e-5, "rdp")


def test_phases_with_the_same_settings_count_once():
    assert 0 < of_different_noise(20, 151).epsilon(1e-5) < 1


def several(count):
    return [Phase(0.01, 1 + i / count, 100) for i in range(count)]


def test_a_target_far_below_a_jump_of_epsilon_is_searched_for_no_longer():
    """ε falls from 1e-7 to 0 there: bisection to the tenth digit tells no more."""
    asked = []

    def excess(x):
        asked.append(x)
        return 1.0 if x < 0.7 else -1.0

    found = least_noise(excess, 1.0, 1e-12)
    assert 0.7 <= found < 0.7 + 3e-6
    assert len(asked) <= 30


def test_a_schedule_of_a_hundred_groups_has_a_curve_and_a_search():
    phases = several(99)
    assert epsilon_intervals(phases, [50, 9900], 1e-5)[-1].upper > 0
    assert (
        noise_multiplier(
            target_epsilon=9.0, sample_rate=0.01, steps=10, delta=1e-5, before=phases
        )
        > 0
    )
