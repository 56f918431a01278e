"""An odometer: ε of several phases, the rest of a budget, and the trade-off curve."""

import math

import numpy as np
import pytest

from dpsgd_explorer.accounting import (
    ACCOUNTANTS,
    Odometer,
    Phase,
    Plan,
    epsilon,
    gaussian_delta,
    gaussian_epsilon,
    noise_multiplier,
    noise_scale,
    sample_rate,
    steps,
    trade_off,
)
from dpsgd_explorer.accounting.core.validation import MAX_STEPS
from dpsgd_explorer.accounting.queries import epsilon_interval
from dpsgd_explorer.errors import AccountingError
from tests.accounting.curves import arrays
from tests.in_order import in_order

DELTA = 1e-5
ALARMS = [0.0, 0.001, 0.1, 0.5, 1.0]


def after(*phases):
    odometer = Odometer()
    for phase in phases:
        odometer.add_dp_sgd(*phase)
    return odometer


@pytest.fixture
def busy():
    return after((0.01, 1.1, 1000), (0.02, 2.0, 300), (1.0, 30.0, 1))


def spent(odometer, *phase, **terms):
    both = Odometer(odometer.entries)
    both.add_dp_sgd(*phase)
    return both.epsilon(DELTA, **terms)


@pytest.mark.parametrize("accountant", ["exact", "rdp"])
def test_the_noise_of_what_follows_spends_the_rest(busy, accountant):
    own = busy.epsilon(DELTA, accountant)
    terms = {"accountant": accountant}
    noise = in_order(busy.noise_multiplier, own + 0.5, 0.05, 200, DELTA, **terms)
    assert own + 0.499 < spent(busy, 0.05, noise, 200, **terms) <= own + 0.5
    assert spent(busy, 0.05, noise * (1 - 1e-6), 200, **terms) > own + 0.5


def test_the_rate_of_what_follows_spends_the_rest(busy):
    target = busy.epsilon(DELTA) + 0.5
    rate = in_order(busy.sample_rate, target, 1.5, 200, DELTA)
    assert spent(busy, rate, 1.5, 200) <= target
    assert spent(busy, rate * (1 + 1e-6), 1.5, 200) > target
    assert in_order(busy.sample_rate, target, 1e6, 2, DELTA) == 1.0


def test_the_steps_that_are_left_are_the_most(busy):
    target = busy.epsilon(DELTA) + 0.5
    left = in_order(busy.steps, target, 0.05, 1.5, DELTA)
    assert spent(busy, 0.05, 1.5, left) <= target < spent(busy, 0.05, 1.5, left + 1)


def test_after_nothing_the_answers_are_those_of_one_run():
    fresh = Odometer()
    for ask, alone, setting in (
        (fresh.noise_multiplier, noise_multiplier, (0.01, 1000)),
        (fresh.sample_rate, sample_rate, (1.1, 1000)),
        (fresh.steps, steps, (0.01, 1.1)),
    ):
        assert in_order(ask, 2.0, *setting, DELTA) == in_order(
            alone, 2.0, *setting, DELTA
        )
    assert arrays(fresh.trade_off(ALARMS)).values.tolist() == ALARMS


def test_a_budget_that_is_spent_leaves_nothing(busy):
    target = busy.epsilon(DELTA) * 0.99
    assert in_order(busy.steps, target, 0.05, 1.5, DELTA) == 0
    for ask in (
        lambda: in_order(busy.noise_multiplier, target, 0.05, 10, DELTA),
        lambda: in_order(busy.sample_rate, target, 1.5, 10, DELTA),
    ):
        with pytest.raises(AccountingError, match="target_epsilon must be at least"):
            ask()


def test_a_schedule_of_noise_is_scaled_as_a_whole():
    phases = [Phase(0.01, 1 + i / 5, 100) for i in range(5)]
    factor = noise_scale(target_epsilon=1.5, phases=phases, delta=DELTA)

    def spent_at(scale):
        scaled = [Phase(p.sample_rate, p.noise_multiplier * scale, 100) for p in phases]
        return epsilon_interval(scaled, DELTA).value

    assert spent_at(factor) <= 1.5 < spent_at(factor * (1 - 1e-6))
    single = noise_scale(
        target_epsilon=1.5, phases=[Phase(0.01, 1.0, 500)], delta=DELTA
    )
    assert single == pytest.approx(
        noise_multiplier(target_epsilon=1.5, sample_rate=0.01, steps=500, delta=DELTA),
        rel=1e-8,
    )


@pytest.mark.parametrize(
    "phases", [[], [Phase(0.1, 1.0, 0)], [Phase(0.1, 0.0, 5), Phase(0.1, 1.0, 5)]]
)
def test_there_must_be_noise_to_scale(phases):
    with pytest.raises(AccountingError, match="phases must be"):
        noise_scale(target_epsilon=1.0, phases=phases, delta=DELTA)


def test_the_attackers_curve_of_several_phases_is_that_of_one_that_equals_them():
    split = after((0.01, 1.1, 400), (0.01, 1.1, 600))
    split.add_gaussian(1e9)  # keeps the entries apart, and tells nothing
    whole = trade_off(
        sample_rate=0.01, noise_multiplier=1.1, steps=1000, false_positive_rates=ALARMS
    )
    assert arrays(split.trade_off(ALARMS)).values == pytest.approx(whole, rel=1e-4)


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_the_curve_of_mixed_phases_bounds_each_epsilon(busy, relation):
    found = arrays(busy.trade_off(ALARMS, "exact", relation))
    assert found.lower[0] <= found.upper[0] == pytest.approx(0.0, abs=1e-2)
    assert np.all(found.lower <= found.upper)
    loss = busy.epsilon(DELTA, "exact", relation)
    most = np.exp(loss) * np.array(ALARMS) + DELTA
    assert np.all(found.lower <= np.minimum(most, 1) + 1e-9)
    looser = arrays(busy.trade_off(ALARMS, "rdp", relation))
    assert np.all(looser.upper >= found.lower)


def test_two_gaussian_queries_are_one():
    odometer = Odometer()
    odometer.add_gaussians([3.0, 4.0], "both")
    one = 1 / math.hypot(1 / 3, 1 / 4)
    loss = odometer.epsilon(DELTA)
    assert gaussian_delta(epsilon=loss, noise_multiplier=one) == pytest.approx(
        DELTA, rel=1e-6
    )
    found = arrays(odometer.trade_off(ALARMS))
    single = trade_off(
        sample_rate=1.0, noise_multiplier=one, steps=1, false_positive_rates=ALARMS
    )
    assert found.values == pytest.approx(single, rel=1e-6)
    assert epsilon(
        sample_rate=1.0, noise_multiplier=one, steps=1, delta=DELTA
    ) == pytest.approx(loss, rel=1e-9)


# They were counted with those before, and "steps must be from 0 to 1000000000".
@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_as_many_steps_as_may_be_are_left_after_others(relation):
    left = in_order(
        after((1e-9, 3.0, 1000)).steps, 1.0, 1e-9, 3.0, 1e-9, "exact", relation
    )
    assert left == MAX_STEPS


def test_an_odometer_composes_different_mechanisms():
    odometer = Odometer()
    assert odometer.epsilon(DELTA) == 0
    odometer.add_gaussians([5.0, 12.0], "SSP")
    odometer.add_gaussian(10.0)
    one = 1 / math.hypot(1 / 5, 1 / 12, 1 / 10)
    assert odometer.epsilon(DELTA) == pytest.approx(
        gaussian_epsilon(delta=DELTA, noise_multiplier=one)
    )
    odometer.add_dp_sgd(0.01, 4.0, 6_000)
    odometer.add_dp_sgd(0.01, 4.0, 4_000)
    assert len(odometer.entries) == 4
    queries = gaussian_epsilon(delta=DELTA, noise_multiplier=one)
    assert max(
        queries,
        epsilon(sample_rate=0.01, noise_multiplier=4.0, steps=10_000, delta=DELTA),
    ) < odometer.epsilon(DELTA)
    assert odometer.epsilon(DELTA) < queries + epsilon(
        sample_rate=0.01, noise_multiplier=4.0, steps=10_000, delta=DELTA
    )


def test_an_odometer_goes_on_from_its_checkpoint():
    odometer = Odometer()
    odometer.add_dp_sgd(0.02, 1.5, 300)
    odometer.add_gaussian(np.float64(9.0), "count")
    again = Odometer.from_json(odometer.to_json())
    assert again.entries == odometer.entries
    assert again.epsilon(1e-6) == odometer.epsilon(1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        '{"version": 2, "entries": []}',
        '{"version": true, "entries": []}',
        '{"version": 1, "entries": [{"label": "x"}]}',
        '{"version": 1, "entries": [], "more_entries": []}',
        '{"version": 1, "entries": [{"label": "x", "mechanism": "gaussian", "delta": 0,'
        ' "phase": {"sample_rate": 1, "noise_multiplier": 1, "steps": 1}}]}',
        '{"version": 1, "entries": [{"label": "x", "mechanism": "gaussian", "phase": '
        '{"sample_rate": 1, "noise_multiplier": 1, "steps": 1, "batch": 5}}]}',
        '{"version": 1, "entries": [{"label": "x", "mechanism": "laplace", "phase": '
        '{"sample_rate": 1, "noise_multiplier": 1, "steps": 1}}]}',
    ],
)
def test_a_checkpoint_that_is_none_is_refused(text):
    with pytest.raises(AccountingError) as caught:
        Odometer.from_json(text)
    assert caught.value.field in ("version", "odometer", "mechanism")


@pytest.mark.parametrize("sampling", ["poisson", "random_allocation"])
def test_the_odometer_of_a_plan_is_its_run(sampling):
    plan = Plan.create(
        sample_size=1000,
        expected_batch_size=100,
        epochs=2,
        noise_multiplier=2.0,
        delta=DELTA,
        sampling=sampling,
    )
    run = Odometer.of(plan)
    assert run.phases == plan.phases
    if sampling == "random_allocation":
        assert run.entries[0].mechanism == sampling
        return
    assert run.epsilon(DELTA) == plan.epsilon()
    found = run.delta_interval(plan.epsilon())
    assert found.lower <= DELTA * (1 + 1e-6)
    assert found.value == run.delta(plan.epsilon()) == pytest.approx(DELTA, rel=1e-3)


@pytest.mark.parametrize("accountant", [*ACCOUNTANTS, "all"])
def test_no_entry_costs_nothing(accountant):
    assert Odometer().epsilon(DELTA, accountant) == 0.0
    with pytest.raises(AccountingError, match="delta"):
        Odometer().epsilon(2.0, accountant)


@pytest.mark.parametrize("text", ["[" * 100_000, b"\xff", '{"version": 1}', "5"])
def test_a_text_that_is_no_checkpoint_is_named(text):
    with pytest.raises(AccountingError, match="Pass the text that to_json returned"):
        Odometer.from_json(text)
