"""Events of dp-accounting: the same mechanisms, and the ε of its own accountant."""

import math
import subprocess
import sys

import dp_accounting as dp
import pytest
from dp_accounting.pld import PLDAccountant

from dpsgd_explorer.accounting import (
    DiscreteGaussianMechanism,
    EpsilonDelta,
    LaplaceMechanism,
    Odometer,
    RandomizedResponse,
    from_dp_event,
    to_dp_event,
)
from dpsgd_explorer.errors import AccountingError

DELTA = 1e-5
STEP = dp.PoissonSampledDpEvent(0.02, dp.GaussianDpEvent(1.0))
MIXED = dp.ComposedDpEvent(
    [
        dp.SelfComposedDpEvent(STEP, 100),
        dp.GaussianDpEvent(8.0),
        dp.SelfComposedDpEvent(
            dp.ComposedDpEvent([dp.LaplaceDpEvent(20.0), dp.NoOpDpEvent()]), 3
        ),
    ]
)
ADD = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = dp.NeighboringRelation.REPLACE_ONE


def peer(event, relation=ADD):
    accountant = PLDAccountant(relation, value_discretization_interval=1e-3)
    return accountant.compose(event).get_epsilon(DELTA)


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (dp.SelfComposedDpEvent(STEP, 100), ADD),
        (dp.SelfComposedDpEvent(STEP, 100), REPLACE),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(7.0), 9), ADD),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(7.0), 9), REPLACE),
        (dp.SelfComposedDpEvent(dp.LaplaceDpEvent(5.0), 4), ADD),
        (dp.RandomizedResponseDpEvent(0.5, 4), REPLACE),
        (MIXED, ADD),
    ],
)
def test_the_odometer_of_an_event_has_the_epsilon_of_their_accountant(event, relation):
    spent = from_dp_event(event).epsilon_interval(
        DELTA, neighboring_relation=relation.name.lower()
    )
    theirs = peer(event, relation)
    assert spent.lower <= theirs * (1 + 1e-9)
    assert spent.upper == pytest.approx(theirs, rel=2e-3)


def test_an_odometer_comes_back_from_its_event():
    ledger = Odometer()
    ledger.add_dp_sgd(0.01, 1.1, 70)
    ledger.add_dp_sgd(1.0, 6.0, 2, label="Gaussian")
    ledger.add(LaplaceMechanism(4.0, 2.0), "Laplace", 3)
    ledger.add(RandomizedResponse(0.25, 5), "randomized response")
    again = from_dp_event(to_dp_event(ledger))
    assert again.phases == ledger.phases
    assert again.mechanisms == [
        (LaplaceMechanism(2.0), 3),
        (RandomizedResponse(0.25, 5), 1),
    ]
    assert [entry.label for entry in again.entries] == [
        entry.label for entry in ledger.entries
    ]


@pytest.mark.parametrize(
    "event",
    [
        dp.NonPrivateDpEvent(),
        dp.GaussianDpEvent(0.0),
        dp.LaplaceDpEvent(0.0),
        dp.RandomizedResponseDpEvent(0.0, 3),
        dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(0.0)),
    ],
)
def test_no_noise_hides_nothing(event):
    ledger = from_dp_event(event)
    assert ledger.epsilon(DELTA, neighboring_relation="replace_one") == math.inf
    assert peer(to_dp_event(ledger)) == math.inf


@pytest.mark.parametrize(
    "event",
    [
        dp.NoOpDpEvent(),
        dp.ComposedDpEvent([]),
        dp.RandomizedResponseDpEvent(0.0, 1),
        dp.PoissonSampledDpEvent(0.0, dp.GaussianDpEvent(1.0)),
        dp.SelfComposedDpEvent(STEP, 0),
    ],
)
def test_nothing_done_spends_nothing(event):
    assert from_dp_event(event).epsilon(DELTA) == 0


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (dp.UnsupportedDpEvent(), "got UnsupportedDpEvent"),
        (dp.ZCDpEvent(0.5), "got ZCDpEvent"),
        (dp.dp_event.DiscreteLaplaceDpEvent(1.0, 1), "got DiscreteLaplaceDpEvent"),
        (
            dp.SampledWithoutReplacementDpEvent(100, 10, dp.GaussianDpEvent(1.0)),
            "Call fixed_size_interval instead",
        ),
        (
            dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)),
            "got PoissonSampledDpEvent",
        ),
        ("GaussianDpEvent", "event must be"),
    ],
)
def test_an_event_without_a_counterpart_is_rejected(event, message):
    with pytest.raises(AccountingError, match=message) as caught:
        from_dp_event(dp.ComposedDpEvent([STEP, event]))
    assert caught.value.field == "event"


def test_an_entry_without_an_event_is_rejected():
    for mechanism in (EpsilonDelta(1.0), DiscreteGaussianMechanism(2.0)):
        ledger = Odometer()
        ledger.add(mechanism)
        with pytest.raises(AccountingError, match="no exact event"):
            to_dp_event(ledger)
    allocated = Odometer()
    allocated.add_random_allocation(10, 1.0, 20)
    with pytest.raises(AccountingError, match="no exact event"):
        to_dp_event(allocated)


def test_without_their_package_events_are_read_and_writing_names_the_remedy():
    code = (
        "import sys; sys.modules['dp_accounting'] = None\n"
        "from dpsgd_explorer import accounting\n"
        "class GaussianDpEvent: noise_multiplier = 2.0\n"
        "ledger = accounting.from_dp_event(GaussianDpEvent())\n"
        "print(round(ledger.epsilon(1e-5), 4))\n"
        "try: accounting.to_dp_event(ledger)\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "1.9931",
        "to_dp_event needs dp-accounting. Run: pip install dp-accounting",
    ]
