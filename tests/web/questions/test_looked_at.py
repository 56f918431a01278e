"""The ε of all runs looked at is that of their composition, data set by data set."""

import math
from dataclasses import replace

import pytest

from dpsgd_explorer.accounting import Odometer, Phase
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.web.questions.looked_at import (
    LookedAt,
    _rounded_down,
    composed,
    totals,
)
from dpsgd_explorer.web.questions.run_phases import phases_done

CONFIG = {"dataset": "adult", "delta": 1e-5, "private": True}
SEARCH = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 1024,
    "steps": 20,
    "target_epsilon": 1.0,
    "mean_trials": 10.0,
    "learning_rate_values": "1 2",
    "delta": 1e-5,
}


def phase(noise, *, rate=0.06, steps=100, step=0):
    return {
        "step": step,
        "sample_rate": rate,
        "noise_multiplier": noise,
        "delta": 1e-5,
        "steps": steps,
    }


def looked(*told, steps=100, **changes):
    return LookedAt.of(CONFIG | changes, list(told), steps)


def test_runs_on_one_data_set_compose_exactly():
    runs = [
        looked(phase(1.0)),
        looked(phase(2.0, rate=0.1, steps=300), steps=300),
        looked(phase(1.0)),
    ]
    odometer = Odometer()
    odometer.add_dp_sgd(0.06, 1.0, 200)
    odometer.add_dp_sgd(0.1, 2.0, 300)
    total = totals(runs)["adult"]
    assert total.spent.status == "exact"
    assert 0 <= total.spent.epsilon - odometer.epsilon(1e-5) < 1e-4  # rounded up
    assert total.spent.epsilon > totals(runs[:1])["adult"].spent.epsilon
    assert (total.covered, total.uncovered, total.runs) == (3, 0, 3)


def test_runs_on_other_data_do_not_add_up():
    alone = totals([looked(phase(1.0))])["adult"]
    both = totals([looked(phase(1.0)), looked(phase(0.5), dataset="mnist")])
    assert both["adult"] == alone
    assert both["mnist"].covered == 1


def test_what_was_stopped_counts_as_far_as_it_came():
    stopped = totals([looked(phase(1.0), steps=40)])["adult"]
    assert stopped == totals([looked(phase(1.0, steps=40))])["adult"] or (
        stopped.spent == totals([looked(phase(1.0, steps=40))])["adult"].spent
    )
    none = totals([looked(phase(1.0), steps=0), looked()])["adult"]
    assert (none.spent.epsilon, none.covered, none.runs) == (0.0, 0, 2)


def test_a_change_in_mid_run_counts_in_both_parts():
    run = looked(phase(1.0), phase(2.0, step=60), steps=80)
    assert run.phases == (Phase(0.06, 1.0, 60), Phase(0.06, 2.0, 20))


def test_what_has_not_taken_a_step_is_neither_covered_nor_uncovered():
    queued, bare = looked(steps=0), looked(phase(None), steps=0, private=False)
    total = totals([queued, looked(steps=0, private=False), bare])["adult"]
    assert (total.covered, total.uncovered, total.waiting) == (0, 0, 3)
    total = totals([queued, looked(phase(None), private=False)])["adult"]
    assert (total.covered, total.uncovered, total.waiting) == (0, 1, 1)


@pytest.mark.parametrize("noise", [None, 0.0])
def test_no_epsilon_covers_a_run_without_noise(noise):
    total = totals([looked(phase(noise)), looked(phase(1.0))])["adult"]
    assert (total.covered, total.uncovered) == (1, 1)
    assert total.spent == totals([looked(phase(1.0))])["adult"].spent


def test_the_strictest_delta_of_all_is_taken():
    other = looked(phase(1.0) | {"delta": 1e-6})
    assert totals([looked(phase(1.0)), other])["adult"].spent.delta == 1e-6


def test_too_many_different_steps_are_bounded_with_less_noise():
    noises = [1 + i / 10_000 for i in range(4000)]
    steps = tuple(Phase(0.01, noise, 1) for noise in noises)
    interval = composed(steps, 1e-5)
    assert interval.status == "bound"
    fewer = composed((Phase(0.01, 1.4, 4000),), 1e-5)
    more = composed((Phase(0.01, 1.0, 4000),), 1e-5)
    assert fewer.value < interval.value < more.value


@pytest.mark.parametrize("noise", [0.1, 0.95, 1.0, 1.999, 9.99, 10.0, 123.4, 3e-5])
def test_noise_is_rounded_down_to_two_digits(noise):
    assert 0.9 * noise < _rounded_down(noise) <= noise
    assert float(f"{_rounded_down(noise):.1e}") == _rounded_down(noise)


def test_phases_end_where_the_run_did():
    phases = [Phase(0.1, 1.0, 5), Phase(0.1, 2.0, 5)]
    assert phases_done(phases, 0) == []
    assert phases_done(phases, 5) == phases[:1]
    assert phases_done(phases, 7) == [phases[0], Phase(0.1, 2.0, 2)]
    assert phases_done(phases, 99) == phases


def test_thirty_runs_are_counted_at_once():
    runs = [
        looked(phase(0.6 + i / 20, rate=0.01 * (i + 1), steps=100)) for i in range(30)
    ]
    total = totals(runs)["adult"]
    assert total.spent.status == "exact"
    assert math.isfinite(total.spent.epsilon)


FILTER = {"epsilon": 3.0, "delta": 1e-5, "order": 8.0}
FURTHER = {"changes": {"further_steps": 20}}


def budgeted(run_id, *changes, parent=""):
    told = [phase(1.0) | {"filter": FILTER}]
    told += [phase(1.0, step=100, steps=120) | {"filter": FILTER} | x for x in changes]
    return LookedAt.of(CONFIG, told, 120, run_id=run_id, parent=parent)


def spent(*runs):
    return totals(runs)["adult"].spent.epsilon


def test_a_run_and_those_that_continue_it_have_one_budget():
    first = budgeted("a")
    second = budgeted("b", FURTHER, parent="a")
    third = budgeted("c", FURTHER, FURTHER, parent="b")
    assert spent(first) == spent(first, second) == spent(third, second, first) == 3.0
    assert totals([first, second])["adult"].covered == 2
    again = budgeted("d", parent="a")  # made from its settings, with its own steps
    assert spent(first, again) > 3.0
    assert spent(first, second, again) == spent(first, again)
    assert spent(second, budgeted("e", FURTHER, parent="other")) > 3.0


def searched(*, is_released=True, **changes):
    config = SearchConfig.parse(SEARCH | changes).model_dump(mode="json")
    return LookedAt.of_search(config, is_released=is_released)


def test_a_winner_counts_at_the_price_of_its_search_and_losers_do_not():
    price = SearchConfig.parse(SEARCH).price
    total = totals([searched(), searched(is_released=False)])["adult"]
    assert (total.covered, total.searches, total.waiting) == (1, 1, 1)
    assert 0 <= total.spent.epsilon - price.epsilon < 1e-2
    assert (total.spent.status, total.spent.accountant) == ("bound", "rdp")
    every_one = composed(
        tuple(
            replace(phase, steps=phase.steps * 33)
            for phase in SearchConfig.parse(SEARCH).plan.phases
        ),
        1e-5,
    )
    assert total.spent.epsilon < every_one.value


def test_a_winner_beside_other_runs_costs_more_than_each_and_less_than_their_sum():
    training, budget = looked(phase(2.0)), budgeted("a")
    alone = spent(searched())
    both = spent(searched(), training)
    assert max(alone, spent(training)) < both < alone + spent(training)
    assert spent(searched(), budget) > max(alone, spent(budget))
    assert spent(searched(), searched(seed=2)) < 2 * alone
    assert both < spent(searched(), training, budget) < 1.5 * (both + spent(budget))
