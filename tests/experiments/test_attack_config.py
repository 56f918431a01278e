"""What an attack may be asked, and what it says of itself."""

import math

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.attack_config import ATTACKED, POOL, AttackConfig
from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.experiments.data_files.sets import FETCHED
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.settings import Settings


def test_some_of_the_attacked_data_sets_are_on_every_machine():
    assert set(ATTACKED) <= set(DATA_SETS)
    assert set(ATTACKED) - set(FETCHED)
    assert all(DATA_SETS[name].train_size > POOL for name in ATTACKED)


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"canary": POOL}, "canary", "at most 599"),
        ({"canary": -1}, "canary", "-1"),
        ({"canary": 1.5}, "canary", "1.5"),
        ({"canary_label": 10}, "canary_label", "reads 10 labels and no other, got 10"),
        ({"canary_label": 2, "dataset": "adult"}, "canary_label", "from 0 to 1"),
        ({"canary_label": -1}, "canary_label", "-1"),
        ({"shadows": 7}, "shadows", "even: each record is in half of them, got 7"),
        ({"shadows": 2}, "shadows", "at least 4"),
        ({"shadows": 18}, "shadows", "at most 16"),
        ({"target_epsilon": 0.4}, "target_epsilon", "at least 0.5"),
        ({"target_epsilon": 17.0}, "target_epsilon", "at most 16"),
        ({"target_epsilon": None}, "target_epsilon", "None"),
        ({"dataset": "own"}, "dataset", "mnist, adult"),
        ({"delta": 0.01}, "delta", "below 1/600, got 0.01"),
        ({"model": "cnn", "dataset": "adult"}, "model", "does not fit"),
        ({"model": "char_lstm"}, "model", "hidden"),
        ({"steps": 1001}, "steps", "at most 1000"),
        ({"target_delta": 1e-5}, "target_delta", "unknown setting"),
    ],
    ids=str,
)
def test_bad_input_is_refused_with_field_rule_and_what_came(values, field, says):
    with pytest.raises(ConfigError) as refusal:
        AttackConfig.parse(values)
    assert refusal.value.field == field
    assert says in str(refusal.value)


@pytest.mark.parametrize("dataset", ATTACKED)
def test_a_label_that_is_not_given_is_a_wrong_one(dataset):
    config = AttackConfig(dataset=dataset)
    labels = range(config.data_set.classes)
    assert all(config.planted(label) in set(labels) - {label} for label in labels)
    assert AttackConfig(dataset=dataset, canary_label=1).planted(1) == 1


@pytest.mark.parametrize("target", [0.5, 4.0, 16.0])
def test_a_private_training_spends_what_was_asked_for(target):
    config = AttackConfig(target_epsilon=target)
    assert 0.99 * target < config.plan.epsilon() <= target


def test_it_lasts_for_both_targets_and_the_shadows_of_each():
    assert AttackConfig(shadows=6).planned_steps == 14
    assert AttackConfig(shadows=4).cost < AttackConfig().cost < Settings.run_cost


def test_a_run_is_reproduced_at_its_own_rate_steps_and_epsilon():
    run = TrainingConfig(target_epsilon=2.0, max_grad_norm=0.3, momentum=0.5)
    found = AttackConfig.of_run(run)
    assert (found.dataset, found.model) == (run.dataset, run.model)
    assert found.plan.sample_rate == pytest.approx(run.plan.sample_rate, rel=0.01)
    assert found.plan.steps == run.plan.steps
    assert found.plan.delta == run.delta
    assert found.plan.epsilon() == pytest.approx(2.0, rel=0.01)
    assert found.plan.noise_multiplier == pytest.approx(
        run.plan.noise_multiplier, rel=0.02
    )
    assert (found.max_grad_norm, found.momentum) == (0.3, 0.5)
    assert AttackConfig.parse(found.model_dump(mode="json")) == found
    assert found.target_epsilon == 2.0
    noisy = AttackConfig.of_run(TrainingConfig(noise_multiplier=1.5))
    assert noisy.target_epsilon == math.ceil(100 * noisy.target_epsilon) / 100
    assert noisy.plan.noise_multiplier == pytest.approx(1.5, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"private": False}, "has no privacy"),
        ({"dataset": "names", "model": "char_lstm"}, "this run on names"),
        ({"noise_schedule": "linear"}, "noise_schedule is 'linear'"),
        ({"optimizer": "adam"}, "optimizer is 'adam'"),
        ({"steps": 1001}, "takes 1001 steps"),
        ({"expected_batch_size": 64}, "sampling rate, 0.00107"),
        ({"target_epsilon": 0.3}, "ε = 0.3"),
        ({"noise_multiplier": 0.3}, "the lab attacks from 0.5 to 16"),
        ({"model": "mlp", "widths": "32, 32"}, "widths is '32, 32'"),
    ],
    ids=str,
)
def test_a_run_that_cannot_be_attacked_is_refused_with_the_reason(changes, says):
    with pytest.raises(ConfigError) as refusal:
        AttackConfig.of_run(TrainingConfig.parse(changes))
    assert says in str(refusal.value)
    assert refusal.value.field == "run"
