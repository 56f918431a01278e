"""What an attack may be asked, and what it says of itself."""

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.attack_config import ATTACKED, POOL, AttackConfig
from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.experiments.data_files.sets import FETCHED
from dpsgd_explorer.settings import Settings


def test_attacked_are_data_sets_that_every_machine_has():
    assert set(ATTACKED) <= set(DATA_SETS) - set(FETCHED)
    assert all(DATA_SETS[name].train_size > POOL for name in ATTACKED)


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"canary": POOL}, "canary", "at most 599"),
        ({"canary": -1}, "canary", "-1"),
        ({"canary": 1.5}, "canary", "1.5"),
        ({"canary_label": 10}, "canary_label", "reads 10 labels and no other; got 10"),
        ({"canary_label": 2, "dataset": "adult"}, "canary_label", "from 0 to 1"),
        ({"canary_label": -1}, "canary_label", "-1"),
        ({"shadows": 7}, "shadows", "even: each record is in half of them; got 7"),
        ({"shadows": 2}, "shadows", "at least 4"),
        ({"shadows": 18}, "shadows", "at most 16"),
        ({"target_epsilon": 0.4}, "target_epsilon", "at least 0.5"),
        ({"target_epsilon": 17.0}, "target_epsilon", "at most 16"),
        ({"target_epsilon": None}, "target_epsilon", "None"),
        ({"dataset": "own"}, "dataset", "mnist, adult"),
        ({"delta": 1e-5}, "delta", "unknown setting"),
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
