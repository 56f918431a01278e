"""Many phases as few: the same steps, with δ bounded from both sides."""

import pytest

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.auditing.noise_groups import grouped
from dpsgd_explorer.accounting.core.phase import count_settings
from dpsgd_explorer.accounting.registry import ACCOUNTANTS

PHASES = [Phase(0.1, 1.0 + i / 30, 2) for i in range(60)]


def delta(phases):
    [bound] = ACCOUNTANTS["exact"].delta_bounds(phases, [1.0])
    return bound.value


def test_groups_hold_all_steps_and_bound_delta_from_both_sides():
    low, high = (grouped(PHASES, 10, choice) for choice in (min, max))
    for groups in (low, high):
        assert count_settings(groups) <= 10
        assert sum(phase.steps for phase in groups) == 120
    assert delta(high) < delta(PHASES) < delta(low)
    assert delta(low) < 2 * delta(high)


def test_few_settings_stay_as_they_are():
    assert grouped(PHASES[:10], 10, min) == PHASES[:10]


@pytest.mark.parametrize("most", [1, 2])
def test_each_sample_rate_has_groups_of_its_own(most):
    mixed = [*PHASES, *(Phase(0.2, phase.noise_multiplier, 1) for phase in PHASES)]
    found = grouped(mixed, most, min)
    steps = {q: sum(p.steps for p in found if p.sample_rate == q) for q in (0.1, 0.2)}
    assert steps == {0.1: 120, 0.2: 60}
    assert count_settings(found) == 2 * most


def test_one_noise_at_many_rates_is_one_group_a_rate():
    rates = [Phase(0.01 * i, 1.0, 1) for i in range(1, 6)]
    assert grouped(rates, 2, min) == rates
