"""A budget fixed beforehand, spent on steps that are chosen on the way."""

import math

import numpy as np
import pytest

from dpsgd_explorer.accounting import RdpCurve, RenyiFilter, epsilon
from dpsgd_explorer.errors import AccountingError

SLACK = 1e-5


def test_the_budget_is_what_the_conversion_leaves():
    budget = RenyiFilter(2.0, SLACK, order=12.0)
    at_order = RdpCurve([12.0], [budget.budget])
    assert at_order.epsilon(SLACK) == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_steps_are_counted_until_the_budget_is_spent(relation):
    budget = RenyiFilter(2.0, SLACK, neighboring_relation=relation)
    left = budget.steps_left(0.01, 2.0)
    assert left > 100
    assert budget.affords(0.01, 2.0, left)
    assert not budget.affords(0.01, 2.0, left + 1)
    budget.spend(0.01, 2.0, left - 5)
    budget.spend(0.02, 3.0)
    rest = budget.left
    with pytest.raises(AccountingError, match="Stop here") as caught:
        budget.spend(0.01, 2.0, left)
    assert (caught.value.field, budget.left) == ("steps", rest)
    while budget.affords(0.01, 2.0):
        budget.spend(0.01, 2.0)
    assert budget.spent <= budget.budget
    assert budget.steps_left(0.01, 2.0) == 0


def test_a_filter_costs_no_less_than_the_exact_count_of_the_same_steps():
    budget = RenyiFilter(2.0, SLACK)
    left = budget.steps_left(1.0, 30.0)
    spent = epsilon(sample_rate=1.0, noise_multiplier=30.0, steps=left, delta=SLACK)
    assert 1.7 < spent <= 2.0
    renyi = epsilon(
        sample_rate=1.0,
        noise_multiplier=30.0,
        steps=left,
        delta=SLACK,
        accountant="rdp",
    )
    assert 1.98 < renyi <= 2.0  # the order unless given is the best of Gaussians


def divergence_of_two(order, first, second_of):
    """Return the divergence of a Gaussian query and of one chosen by its answer."""
    y = np.arange(-60.0, 60.0, 1e-3) * first
    log_p = -0.5 * ((y - 1) / first) ** 2
    log_q = -0.5 * (y / first) ** 2
    inner = order / (2 * second_of(y) ** 2) * (order - 1)
    logs = order * log_p + (1 - order) * log_q + inner
    top = logs.max()
    total = np.exp(logs - top).sum() * 1e-3 / math.sqrt(2 * math.pi)
    return (top + math.log(total)) / (order - 1)


def test_a_second_query_chosen_by_the_first_answer_stays_within_the_budget():
    budget = RenyiFilter(3.0, SLACK, order=6.0)
    first, least = 2.0, 1.0
    budget.spend(1.0, first)
    while budget.affords(1.0, least / 1.01):
        least /= 1.01
    while not budget.affords(1.0, least):
        least *= 1.001
    adaptive = divergence_of_two(6.0, first, lambda y: np.where(y > 0.5, least, 50.0))
    assert adaptive <= budget.budget
    always = divergence_of_two(6.0, first, lambda y: np.full_like(y, least))
    assert 0.99 * budget.budget < always <= budget.budget
    too_much = divergence_of_two(
        6.0, first, lambda y: np.where(y > 0.5, 0.9 * least, 50)
    )
    assert too_much > budget.budget


def test_a_curve_from_elsewhere_is_spent_too():
    budget = RenyiFilter(2.0, SLACK, order=10.0)
    budget.spend_curve(RdpCurve([5.0, 10.0, 20.0], [0.05, 0.1, 0.3]))
    assert budget.spent == pytest.approx(0.1)
    with pytest.raises(AccountingError, match="Stop here"):
        budget.spend_curve(RdpCurve([5.0], [0.01]))  # nothing is known at order 10
    with pytest.raises(AccountingError, match="neighboring_relation"):
        budget.spend_curve(RdpCurve([10.0], [0.1], "replace_one"))
    assert budget.spent == pytest.approx(0.1)


def test_without_noise_nothing_is_afforded_and_no_step_costs_nothing():
    budget = RenyiFilter(2.0, SLACK)
    assert budget.steps_left(0.01, 0.0) == 0
    assert not budget.affords(0.01, 0.0)
    budget.spend(0.01, 0.0, 0)
    assert budget.spent == 0
    assert budget.steps_left(0.01, 1e12) == 10**9


@pytest.mark.parametrize("order", [1.0, 0.5, math.nan, math.inf, 1e6, "ten"])
def test_an_order_is_above_one_and_known(order):
    with pytest.raises(AccountingError, match="order must be"):
        RenyiFilter(2.0, SLACK, order=order)


def test_an_order_that_leaves_nothing_is_refused():
    with pytest.raises(AccountingError, match="order must leave"):
        RenyiFilter(0.5, SLACK, order=2.0)
