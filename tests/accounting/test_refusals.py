"""What is refused says what is wrong, and what is known is not left open."""

import numpy as np
import pytest

from dpsgd_explorer.accounting import (
    ACCOUNTANTS,
    Odometer,
    epsilon_curve,
    noise_multiplier,
    steps,
    trade_off,
)
from dpsgd_explorer.accounting import epsilon as spent
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase_limits import (
    DISTRIBUTION,
    MOST_ANSWERS,
    MOST_PHASES,
    MOST_WORK,
    SEARCH,
    TRADE_OFF,
)
from dpsgd_explorer.accounting.core.root_finding import least_noise
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.composition import Composition
from dpsgd_explorer.accounting.privacy_loss_distribution import PrivacyLossDistribution
from dpsgd_explorer.accounting.queries import (
    delta_interval,
    epsilon_intervals,
)
from dpsgd_explorer.accounting.trade_off_curves import trade_off_intervals
from dpsgd_explorer.errors import AccountingError
from tests.accounting.curves import arrays


@pytest.mark.parametrize("steps", [1, 3, 30])
@pytest.mark.parametrize("sigma", [0.2, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5])
def test_optimal_composition_is_never_above_basic(steps, sigma, delta):
    """39.4328 was "optimal" where adding up gave 39.3910."""
    for rate in (0.01, 1.0):
        best, plain = (
            spent(rate, sigma, steps, delta, name) for name in ("optimal", "basic")
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
    assert trade_off(1.0, 0.0, 1, false_positive_rates=alarms) == [1.0] * 3


def of_different_noise(count, times=1):
    odometer = Odometer()
    for _ in range(times):
        for noise in np.linspace(5, 50, count):
            odometer.add_dp_sgd(0.01, float(noise), 1)
    return odometer


def test_more_different_phases_than_are_answered_at_once_are_refused():
    with pytest.raises(AccountingError, match="at most 3,000 different") as caught:
        of_different_noise(MOST_PHASES + 1).epsilon(1e-5)
    assert caught.value.field == "phases"


def test_phases_with_the_same_settings_count_once():
    assert 0 < of_different_noise(20, MOST_PHASES // 20 + 1).epsilon(1e-5) < 1


def several(count):
    return [Phase(0.01, 1 + i / count, 100) for i in range(count)]


def of_low_noise(count):
    low = [Phase(0.01, 0.2 + 0.1 * i / count, 2) for i in range(count - 1)]
    return [Phase(0.01, 1.0, 2), *low]


@pytest.mark.parametrize("make", [several, of_low_noise])
@pytest.mark.parametrize(
    ("ask", "worth"),
    [
        (
            lambda phases: epsilon_intervals(phases, range(1, 101), 1e-5),
            {"questions": 1, "answers": 100},
        ),
        (lambda phases: trade_off_intervals(phases, [0.1]), TRADE_OFF),
        (lambda phases: PrivacyLossDistribution.of(phases), DISTRIBUTION),
        (lambda phases: noise_multiplier(3.0, 0.01, 10, 1e-5, before=phases), SEARCH),
        (lambda phases: steps(3.0, 0.01, 1.0, 1e-5, before=phases), SEARCH),
    ],
    ids=["curve", "trade-off", "distribution", "noise", "steps"],
)
def test_a_question_that_takes_long_for_many_phases_is_refused_before(
    ask, worth, make, monkeypatch
):
    monkeypatch.setattr(Composition, "__init__", never)
    work = ExactAccountant().work(make(100), worth["answers"], ADD_OR_REMOVE_ONE) / 100
    count = int(MOST_WORK / (worth["questions"] * work)) + 2
    with pytest.raises(AccountingError, match=f"got {count:,}") as caught:
        ask(make(count))
    assert caught.value.field == "phases"


def never(*_args, **_options):
    raise AssertionError("worked before it was refused")


@pytest.mark.parametrize("name", [name for name in ACCOUNTANTS if name != "zcdp"])
def test_more_numbers_of_steps_than_are_answered_at_once_are_refused(name):
    asked = range(MOST_ANSWERS + 1)
    with pytest.raises(AccountingError, match="got 50,001") as caught:
        epsilon_curve(0.01, 1.0, 1e-5, steps=asked, accountant=name)
    assert caught.value.field == "steps"


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: run.epsilon(1e-5, "rdp", "replace_one"),
        lambda run: run.epsilon(1e-5, "moments", "replace_one"),
        lambda run: run.rdp_curve("replace_one"),
        lambda run: run.epsilons(1e-5),
        lambda run: delta_interval(run.phases, 1.0, "basic"),
        lambda run: run.noise_multiplier(1.0, 0.01, 10, 1e-5, "advanced"),
    ],
    ids=["rdp", "moments", "curve", "all", "delta", "search"],
)
def test_every_accountant_refuses_more_phases_than_it_answers_for_at_once(ask):
    with pytest.raises(AccountingError, match="different pairs") as caught:
        ask(of_different_noise(600))
    assert caught.value.field == "phases"


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
    assert noise_multiplier(9.0, 0.01, 10, 1e-5, before=phases) > 0
