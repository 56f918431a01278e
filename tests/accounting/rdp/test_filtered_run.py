"""A budget fixed before a run whose steps are chosen while it trains."""

import pytest

from dpsgd_explorer.accounting import FilteredRun, Phase, RenyiFilter, epsilon
from dpsgd_explorer.errors import AccountingError

DELTA = 1e-5
STEP = Phase(0.07, 3.0, 400)


@pytest.fixture
def budget():
    return FilteredRun.planned(3.0, DELTA, STEP)


def test_its_order_allows_the_most_of_the_planned_steps(budget):
    allowed = budget.steps_within([], Phase(0.07, 3.0, 10**6))
    around = [None, *(budget.order * factor for factor in (0.8, 0.9, 1.1, 2.0))]
    filters = [RenyiFilter(3.0, DELTA, order=order) for order in around]
    others = [one.steps_left(0.07, 3.0) for one in filters]
    assert allowed >= max(others)
    assert allowed > min(others)


def test_a_filter_allows_each_step_that_it_says_and_no_more(budget):
    done = [Phase(0.07, 3.0, 60), Phase(0.14, 4.0, 25), Phase(0.07, 2.0, 10)]
    further = Phase(0.02, 1.5, 10**6)
    left = budget.steps_within(done, further)
    counting = RenyiFilter(3.0, DELTA, order=budget.order)
    for phase in [*done, Phase(0.02, 1.5, left)]:
        counting.spend(phase.sample_rate, phase.noise_multiplier, phase.steps)
    with pytest.raises(AccountingError):
        counting.spend(0.02, 1.5)
    assert left > 0
    assert budget.steps_within(done, Phase(0.02, 1.5, 3)) == 3


def test_a_spent_budget_allows_nothing_however_it_was_spent(budget):
    whole = budget.steps_within([], Phase(0.07, 3.0, 10**6))
    parts = [Phase(0.07, 3.0, whole - 7), Phase(0.07, 3.0, 7)]
    assert budget.steps_within(parts, STEP) == 0
    assert budget.steps_within([*parts, STEP], STEP) == 0
    assert budget.steps_within([], Phase(0.5, 0.1, 9)) == 0


def test_what_is_counted_grows_to_the_budget_and_is_no_less_than_exact(budget):
    steps = budget.steps_within([], Phase(0.07, 3.0, 10**6))
    run = [Phase(0.07, 3.0, steps)]
    counted = budget.counted(run, [0, 1, steps // 2, steps])
    assert counted[0] == 0.0
    assert counted == sorted(counted)
    assert (
        epsilon(sample_rate=0.07, noise_multiplier=3.0, steps=steps, delta=DELTA)
        <= counted[-1]
        <= 3.0
    )
    assert counted[-1] > 2.95


def test_a_budget_that_leaves_nothing_is_refused():
    with pytest.raises(AccountingError):
        FilteredRun.planned(1e-4, DELTA, STEP)
