"""Rényi divergences as data."""

import json
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

from dpsgd_explorer.accounting import Odometer, Phase, RdpCurve, delta, epsilon
from dpsgd_explorer.errors import AccountingError
from tests.in_order import in_order

RUN = (0.01, 1.1, 1000)
RELATIONS = ["add_or_remove_one", "replace_one"]


def gaussian(mu, orders):
    orders = np.asarray(orders, dtype=float)
    return RdpCurve(orders, orders * mu**2 / 2)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_curve_of_a_run_is_the_accountants(relation):
    curve = RdpCurve.of([Phase(*RUN)], relation)
    assert curve.epsilon(1e-5) == in_order(epsilon, *RUN, 1e-5, "rdp", relation)
    assert curve.delta(2.0) == in_order(delta, *RUN, 2.0, "rdp", relation)
    odometer = Odometer()
    odometer.add_dp_sgd(*RUN)
    assert odometer.rdp_curve(relation).epsilon(1e-5) == curve.epsilon(1e-5)


def test_curves_add_up_as_phases_do():
    one, two = Phase(*RUN), Phase(1.0, 20.0, 3)
    both = RdpCurve.of([one]).compose(RdpCurve.of([two]))
    together = RdpCurve.of([one, two])
    np.testing.assert_allclose(both.divergences, together.divergences, rtol=1e-12)
    again = RdpCurve.of([Phase(0.01, 1.1, 3000)])
    often = RdpCurve.of([one]).self_compose(3)
    np.testing.assert_allclose(often.divergences, again.divergences, rtol=1e-12)


def test_a_curve_from_elsewhere_composes_as_elsewhere():
    orders = [1.5, 2.0, 3.0, 8.0, 20.0, 64.0]
    theirs = RdpAccountant(orders)
    theirs.compose(dp_accounting.LaplaceDpEvent(3.0), 5)
    laplace = RdpCurve(theirs._orders, theirs._rdp)
    assert laplace.epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-12)
    theirs.compose(dp_accounting.GaussianDpEvent(7.0), 2)
    both = laplace.compose(gaussian(math.sqrt(2) / 7, orders))
    assert both.epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-12)
    ours = laplace.compose(RdpCurve.of([Phase(1.0, 7.0, 2)]))
    assert ours.orders[-1] == 64
    assert ours.epsilon(1e-6) <= both.epsilon(1e-6)


def test_between_known_orders_a_curve_is_bounded_from_above():
    asked = np.array([1.01, 1.3, 2.0, 3.7, 9.0, 40.0, 41.0])
    sparse, truth = gaussian(0.7, [2, 5, 40]), asked * 0.7**2 / 2
    found = sparse.at(asked)
    assert np.all(found[:-1] >= truth[:-1] * (1 - 1e-12))
    following = np.array([2, 2, 2, 5, 40, 40]) * 0.7**2 / 2
    assert np.all(found[:-1] <= following)
    assert found[2] == sparse.divergences[0]
    assert found[5] == sparse.divergences[-1]
    assert found[6] == math.inf


def test_orders_without_an_answer_stay_without():
    known = RdpCurve([2, 3, 4], [1.0, math.inf, math.inf])
    both = known.compose(gaussian(1.0, [2, 4]))
    assert both.at([2]) == pytest.approx([2.0])
    assert np.all(np.isinf(both.at([2.5, 3, 4])))
    assert known.at([1.5]) == pytest.approx([1.0])  # R rises with its order
    assert RdpCurve([2], [math.inf]).epsilon(1e-5) == math.inf
    assert RdpCurve([2], [math.inf]).delta(1.0) == 1.0
    assert RdpCurve.of([]).epsilon(1e-5) == 0.0


def test_a_curve_comes_back_from_json_to_the_last_digit():
    for curve in (RdpCurve.of([Phase(*RUN)]), RdpCurve([2, 3], [0.1, math.inf])):
        back = RdpCurve.from_json(curve.to_json())
        assert np.array_equal(back.orders, curve.orders)
        assert np.array_equal(back.divergences, curve.divergences)
        assert back.neighboring_relation == curve.neighboring_relation


DATA = json.loads(RdpCurve([2, 3], [0.1, 0.2]).to_json())


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": True},
        {"kind": "other"},
        {"orders": 3},
        {"orders": [1.0, 2.0]},
        {"orders": [3, 2]},
        {"divergences": [0.1]},
        {"divergences": [0.1, -1]},
        {"divergences": ["a", "b"]},
        {"neighboring_relation": "twins"},
        {"more": 1},
    ],
)
def test_what_is_no_curve_is_refused(change):
    with pytest.raises(AccountingError):
        RdpCurve.from_json(json.dumps(DATA | change))


def test_text_that_is_no_json_is_refused():
    with pytest.raises(AccountingError, match="rdp_curve must be JSON"):
        RdpCurve.from_json("orders")


def test_curves_of_different_neighbours_do_not_add_up():
    one = RdpCurve([2], [0.1], "replace_one")
    with pytest.raises(AccountingError, match="neighboring_relation"):
        one.compose(gaussian(1.0, [2]))


@pytest.mark.parametrize("orders", [[], [1.0], [2, 2], [2, math.inf], [math.nan], "a"])
def test_orders_are_ascending_and_above_one(orders):
    with pytest.raises(AccountingError, match="orders must be"):
        RdpCurve(orders, [0.1])


def test_a_curve_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        gaussian(1.0, [2]).divergences[0] = 0.0
