import dataclasses
import math

import pytest

from dpsgd_explorer.accounting import Plan, epsilon
from dpsgd_explorer.errors import ConfigError

MNIST = {"sample_size": 60_000, "expected_batch_size": 256, "delta": 1e-5}


def plan(**changes):
    given = MNIST | {"steps": 1000, "noise_multiplier": 1.1} | changes
    return Plan.create(**given)


def test_a_plan_asks_the_accountant_for_its_own_run():
    run = plan()
    assert run.sample_rate == 256 / 60_000
    assert run.epsilon() == epsilon(
        sample_rate=256 / 60_000, noise_multiplier=1.1, steps=1000, delta=1e-5
    )
    assert run.epsilon(10) == epsilon(
        sample_rate=256 / 60_000, noise_multiplier=1.1, steps=10, delta=1e-5
    )
    curve = [0, run.epsilon(10), run.epsilon()]
    assert run.epsilons([0, 10, 1000]) == pytest.approx(curve, rel=1e-6)


def test_without_noise_epsilon_is_infinite_and_said_so():
    run = plan(noise_multiplier=0.0)
    assert not run.is_private
    assert run.epsilon() == math.inf
    assert run.epsilon(0) == 0
    assert run.steps_within(100.0) == 0
    assert plan().is_private


def test_a_target_gets_the_noise_that_spends_it_and_no_more():
    run = plan(noise_multiplier=None, target_epsilon=3.0)
    assert 2.999 < run.epsilon() <= 3.0
    assert run.steps_within(3.0) == 1000


def test_steps_within_end_before_the_step_that_would_spend_more():
    run = plan()
    last = run.steps_within(0.5)
    assert 0 < last < run.steps
    assert run.epsilon(last) <= 0.5 < run.epsilon(last + 1)
    assert run.steps_within(1000.0) == run.steps


@pytest.mark.parametrize(
    ("epochs", "sample_size", "batch", "expected"),
    [
        (60, 60_000, 256, 14_063),  # 14,062.5 rounded up
        (1, 60_000, 256, 235),
        (1.1, 50_000, 1000, 55),  # 1.1 * 50 = 55.00000000000001 in binary
        (0.001, 60_000, 256, 1),
        (3, 100, 100, 3),
    ],
)
def test_epochs_become_steps(epochs, sample_size, batch, expected):
    sizes = {"sample_size": sample_size, "expected_batch_size": batch}
    assert plan(steps=None, epochs=epochs, **sizes).steps == expected


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sample_size": 0}, "sample_size"),
        ({"expected_batch_size": 0}, "expected_batch_size"),
        ({"expected_batch_size": 60_001}, "expected_batch_size"),
        ({"expected_batch_size": 256.5}, "expected_batch_size"),
        ({"steps": 0}, "steps"),
        ({"steps": 10.5}, "steps"),
        ({"steps": None}, "steps"),
        ({"epochs": 1}, "steps"),
        ({"steps": None, "epochs": 0}, "epochs"),
        ({"steps": None, "epochs": math.nan}, "epochs"),
        ({"steps": None, "epochs": 1e9}, "epochs"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": math.inf}, "noise_multiplier"),
        ({"noise_multiplier": None}, "noise_multiplier"),
        ({"target_epsilon": 1.0}, "noise_multiplier"),
        ({"noise_multiplier": None, "target_epsilon": -1.0}, "target_epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1 / 60_000}, "delta"),
        ({"accountant": "pld"}, "accountant"),
    ],
)
def test_a_wrong_setting_is_named(changes, field):
    with pytest.raises(ConfigError) as caught:
        plan(**changes)
    assert caught.value.field == field
    assert field in str(caught.value)
    assert "got" in str(caught.value)


def test_a_target_that_no_noise_reaches_is_named():
    with pytest.raises(ConfigError, match="at least") as caught:
        plan(noise_multiplier=None, target_epsilon=1e-12, delta=1e-30, steps=10**9)
    assert caught.value.field == "target_epsilon"


def test_a_plan_that_exists_is_valid_and_stays_so():
    run = plan()
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.steps = 10
    with pytest.raises(ConfigError, match=r"^steps must be"):
        dataclasses.replace(run, steps=0)
