"""Each answer says what it is, whatever its accountant usually is."""

import math

import numpy as np
import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import ACCOUNTANTS, Phase
from dpsgd_explorer.accounting.core.intervals import interval, meet
from dpsgd_explorer.accounting.queries import (
    delta_interval,
    epsilon_interval,
    epsilon_intervals,
    exceeds,
)
from tests.accounting.curves import arrays
from tests.in_order import in_order

RUN = Phase(0.01, 1.1, 1000)
OPEN = Phase(1e-5, 0.05, 3)  # its sides do not meet


def test_an_exact_answer_has_two_sides_that_meet():
    found = epsilon_interval([RUN], 1e-6)
    assert found.status == "exact"
    assert found.lower <= found.upper == found.value
    assert found.upper - found.lower <= 1e-4 * found.upper


def test_sides_that_do_not_meet_make_a_bound_of_the_exact_accountants_answer():
    found = epsilon_interval([OPEN], 1e-5)
    assert ACCOUNTANTS["exact"].status == "exact"
    assert found.upper - found.lower > 1e-4 * found.upper
    assert found.status == "bound"


def test_a_curve_is_exact_if_all_of_it_is():
    assert arrays(epsilon_intervals([RUN], [0, 10, 1000], 1e-6)).status == "exact"
    assert arrays(epsilon_intervals([OPEN], [0, 3], 1e-5)).status == "bound"


@pytest.mark.parametrize("name", [n for n in ACCOUNTANTS if n not in ("exact", "zcdp")])
def test_the_others_prove_one_side_at_most(name):
    found = epsilon_interval([RUN], 1e-6, name)
    assert found.status == ACCOUNTANTS[name].status
    assert found.lower is None
    assert found.upper == (None if found.status == "approximation" else found.value)


def test_delta_has_sides_too():
    spent = epsilon_interval([RUN], 1e-6).value
    found = delta_interval([RUN], spent)
    assert found.status == "exact"
    assert found.lower <= found.value == pytest.approx(1e-6, rel=1e-3)


def test_without_noise_both_sides_are_infinite():
    found = epsilon_interval([Phase(0.01, 0.0, 3)], 1e-5)
    assert (found.value, found.lower, found.status) == (math.inf, math.inf, "exact")


def test_more_is_spent_only_where_the_lower_side_says_so():
    spent = epsilon_interval([RUN], 1e-6)
    assert exceeds([RUN], 0.99 * spent.lower, 1e-6)
    assert not exceeds([RUN], spent.upper, 1e-6)
    assert not exceeds([RUN], 0.01, 1e-6, "rdp")


def test_bounds_of_which_one_is_infinite_do_not_meet():
    """Infinity less anything is within any share of infinity."""
    lower, upper = np.array([0.0, 3.0, np.inf, 1.0]), np.array([np.inf] * 3 + [1.0])
    assert meet(lower, upper).tolist() == [False, False, True, True]
    assert interval(0.0, np.inf).status == "bound"


def test_both_sides_of_an_answer_are_public_and_the_upper_one_is_its_number():
    phases = [accounting.Phase(0.01, 1.1, 1000), accounting.Phase(1.0, 20.0, 1)]
    spent = accounting.epsilon_interval(phases, 1e-5)
    assert isinstance(spent, accounting.Interval)
    assert spent.lower <= float(spent) == spent.upper == spent.value
    left = accounting.delta_interval(phases, float(spent))
    assert left.lower <= 1e-5 * (1 + 1e-9)
    assert float(left) == pytest.approx(1e-5)
    [at_tenth] = accounting.trade_off_intervals(phases, [0.1])
    assert 0.1 < at_tenth.lower <= float(at_tenth) < 1


def test_one_false_positive_rate_is_a_list_of_one():
    run = (0.01, 1.1, 1000)
    for rate in (0.1, np.float64(0.1), np.array(0.1)):
        alone = in_order(accounting.trade_off, *run, false_positive_rates=rate)
        assert alone == in_order(accounting.trade_off, *run, false_positive_rates=[0.1])


def test_an_odometer_has_both_sides_delta_and_a_short_text():
    odometer = accounting.Odometer()
    odometer.add_dp_sgd(0.01, 1.1, 1000)
    odometer.add_gaussian(20.0)
    spent = odometer.epsilon_interval(1e-5)
    assert spent == accounting.epsilon_interval(odometer.phases, 1e-5)
    assert float(spent) == odometer.epsilon(1e-5)
    assert odometer.delta(float(spent)) == pytest.approx(1e-5)
    assert repr(odometer) == "Odometer(entries=2, steps=1001)"
