"""Winners of blind searches and whole budgets beside steps, on the same records."""

import math

import pytest

from dpsgd_explorer.accounting import Phase, RdpCurve, epsilon, padded_selection
from dpsgd_explorer.accounting.rdp.filtered_run import FilteredRun
from dpsgd_explorer.accounting.rdp.together import BoundedRelease, joint_epsilon

DELTA = 1e-5
STEP = Phase(0.03, 3.0, 40)
STEPS = Phase(0.03, 1.5, 100)
MANY = Phase(0.03, 0.6, 3000)
PRICE = padded_selection(RdpCurve.of([STEP]), mean_trials=10.0, delta=DELTA)
SEARCH = BoundedRelease.search(PRICE)
FILTER = FilteredRun.planned(3.0, DELTA, Phase(0.07, 3.0, 500))
BUDGET = BoundedRelease.budget(FILTER)


def together(bounded, *planned, delta=DELTA, of_steps=None):
    def exact(part):
        [phase] = planned
        return epsilon(
            sample_rate=phase.sample_rate,
            noise_multiplier=phase.noise_multiplier,
            steps=phase.steps,
            delta=part,
        )

    return joint_epsilon(bounded, planned, delta, of_steps or exact)


def unknown(_delta):
    return math.inf


@pytest.mark.parametrize("one", [SEARCH, BUDGET])
def test_one_alone_costs_its_price_and_more_at_a_smaller_delta(one):
    assert together([one]) == one.price
    assert one.price < together([one], delta=DELTA / 2) < 1.2 * one.price


@pytest.mark.parametrize("searches", [[SEARCH], [SEARCH, SEARCH]])
def test_the_bound_leaves_room_in_delta_for_numbers_that_are_cut(searches):
    value = together(searches, STEPS, of_steps=unknown)
    curve = RdpCurve.of([STEPS])
    for one in searches:
        curve = curve.compose(one.curve)
    tail = sum(one.tail for one in searches)
    assert curve.delta(value) + (1 + math.exp(value)) * tail <= DELTA * (1 + 1e-9)
    assert value > curve.epsilon(DELTA)


def test_more_on_the_same_records_costs_more():
    other = BoundedRelease.budget(FilteredRun.planned(1.0, DELTA, Phase(0.01, 1.0, 50)))
    for growing in (
        [[SEARCH], [SEARCH, SEARCH], [SEARCH, SEARCH, BUDGET]],
        [[BUDGET], [BUDGET, other], [BUDGET, other, SEARCH]],
    ):
        values = [together(bounded) for bounded in growing]
        values.append(together(growing[-1], STEPS))
        assert values == sorted(set(values))
        assert math.isfinite(values[-1])


def test_nothing_is_gained_by_counting_a_budget_as_steps_of_a_plan():
    steps = FILTER.steps_within([], Phase(0.07, 3.0, 10**6))
    whole = epsilon(
        sample_rate=0.07, noise_multiplier=3.0, steps=steps + 40, delta=DELTA
    )
    assert together([BUDGET], Phase(0.07, 3.0, 40)) > whole


@pytest.mark.parametrize("one", [SEARCH, BUDGET])
def test_where_divergences_are_a_poor_bound_the_parts_are_added(one):
    def of_many(delta):
        return epsilon(sample_rate=0.03, noise_multiplier=0.6, steps=3000, delta=delta)

    alone = of_many(DELTA)
    added = together([one], MANY)
    assert added == of_many(DELTA / 2) + one.epsilon(DELTA / 2)
    assert alone + one.price < added < 1.2 * (alone + one.price)
    joint = together([one], MANY, of_steps=unknown)
    assert added < joint
