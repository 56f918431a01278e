"""What a run spends along its steps, whatever becomes of its plan."""

from dataclasses import replace

import pytest

from dpsgd_explorer.accounting import FilteredRun, Odometer, Phase, Plan
from dpsgd_explorer.accounting.spending import Spending
from dpsgd_explorer.errors import AccountingError

PLAN = Plan(
    sample_size=1000,
    expected_batch_size=50,
    steps=40,
    noise_multiplier=1.5,
    delta=1e-5,
)


def filtered(epsilon):
    return FilteredRun.planned(epsilon, PLAN.delta, *PLAN.phases)


def test_a_plan_that_stays_is_counted_by_itself():
    spending = Spending(PLAN)
    assert (spending.last, spending.accountant, spending.status) == (
        40,
        "exact",
        "exact",
    )
    steps = [0, 1, 20, 40]
    assert list(spending.epsilons(steps).values()) == PLAN.epsilons(steps)
    within = Spending(PLAN, stop_at=0.9).last
    assert PLAN.epsilon(within) <= 0.9 < PLAN.epsilon(within + 1)


def test_a_filter_counts_each_plan_with_its_own_noise_and_rate():
    spending = Spending(PLAN, filtered(6.0))
    spending.change(10, replace(PLAN, noise_multiplier=1.2))
    spending.change(15, replace(PLAN, noise_multiplier=1.2, expected_batch_size=20))
    assert spending.phases == [
        Phase(0.05, 1.5, 10),
        Phase(0.05, 1.2, 5),
        Phase(0.02, 1.2, 25),
    ]
    assert (spending.accountant, spending.status) == ("filter", "bound")
    counted = spending.epsilons([5, 10, 15, 40])
    assert list(counted.values()) == sorted(counted.values())
    as_planned = Odometer()
    for phase in spending.phases:
        as_planned.add_dp_sgd(phase.sample_rate, phase.noise_multiplier, phase.steps)
    assert as_planned.epsilon(PLAN.delta) <= counted[40] <= 6.0


def test_a_filter_ends_the_run_before_the_step_that_would_exceed_the_budget():
    budget = filtered(3.0)
    spending = Spending(PLAN, budget)
    spending.change(5, replace(PLAN, noise_multiplier=1.0, steps=300))
    assert 5 < spending.last < 300
    [spent] = spending.epsilons([spending.last]).values()
    [beyond] = spending.epsilons([spending.last + 1]).values()
    assert spent <= 3.0 < beyond
    spending.change(spending.last, replace(PLAN, noise_multiplier=1.0, steps=300))
    assert spending.last == spending.phases[0].steps + spending.phases[1].steps


def test_without_noise_nothing_is_counted():
    open_plan = replace(PLAN, noise_multiplier=0.0)
    spending = Spending(open_plan)
    assert spending.epsilons([0, 40]) == {0: None, 40: None}
    assert spending.last == 40


def test_fixed_slots_end_with_the_plan_they_began_with():
    slots = replace(PLAN, sampling="fixed_slots")
    spending = Spending(slots)
    assert list(spending.epsilons([20, 40]).values()) == slots.epsilons([20, 40])
    with pytest.raises(AccountingError, match="cannot change its plan"):
        spending.change(10, replace(slots, noise_multiplier=3.0))
