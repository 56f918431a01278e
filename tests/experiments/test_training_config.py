import itertools
import json

import pytest
from pydantic import ValidationError

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.experiments.training_config import TrainingConfig


def test_every_fault_is_told_at_its_field():
    with pytest.raises(ConfigError) as refusal:
        TrainingConfig.parse({"steps": 0, "seed": -1})
    assert refusal.value.fields.keys() == {"steps", "seed"}


def test_nothing_at_all_is_the_default_run():
    config = TrainingConfig.parse({})
    assert (config.dataset, config.model) == ("mnist", "scattering_linear")
    assert (config.steps, config.target_epsilon) == (300, 3.0)


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        TrainingConfig.parse({}).steps = 5


@pytest.mark.parametrize(
    ("given", "unset"),
    [
        ({"epochs": 2.0}, "steps"),
        ({"steps": 5}, "epochs"),
        ({"noise_multiplier": 1.0}, "target_epsilon"),
        ({"target_epsilon": 1.0}, "noise_multiplier"),
    ],
    ids=str,
)
def test_one_of_a_pair_keeps_the_other_empty(given, unset):
    assert getattr(TrainingConfig.parse(given), unset) is None


@pytest.mark.parametrize(
    ("model", "dataset"),
    [(model, data) for model in MODELS for data in MODELS[model].parameters],
)
def test_json_and_back_is_the_same_configuration(model, dataset):
    config = TrainingConfig.parse({"model": model, "dataset": dataset})
    assert TrainingConfig.parse(json.loads(config.model_dump_json())) == config


def test_a_query_string_is_read_by_the_kind_of_each_field():
    config = TrainingConfig.from_query(
        {"steps": "12", "learning_rate": "4", "private": "false", "epochs": ""}
    )
    assert (config.steps, config.learning_rate, config.private) == (12, 4.0, False)


def test_text_where_a_number_belongs_is_told_as_it_came():
    with pytest.raises(ConfigError, match="'many'") as refusal:
        TrainingConfig.from_query({"steps": "many"})
    assert refusal.value.field == "steps"


def test_a_target_gives_the_noise_that_keeps_it():
    plan = TrainingConfig.parse({"target_epsilon": 2.0}).plan
    assert 1.99 < plan.epsilon() <= 2.0


def test_without_privacy_there_is_no_noise():
    plan = TrainingConfig.parse({"private": False}).plan
    assert (plan.noise_multiplier, plan.is_private) == (0.0, False)


def test_epochs_become_steps_rounded_up():
    config = TrainingConfig.parse({"epochs": 1.0, "expected_batch_size": 7000})
    assert config.plan.steps == 9  # 60,000 / 7,000 = 8.57


@pytest.mark.parametrize(("steps", "points"), [(300, 40), (5, 40), (1, 1), (1000, 7)])
def test_evaluations_end_with_the_last_step_and_are_even_in_the_root(steps, points):
    config = TrainingConfig.parse(
        {"steps": steps, "evaluations": points, "noise_multiplier": 2.0}
    )
    chosen = config.evaluation_steps
    assert chosen[-1] == steps
    assert len(chosen) <= points
    assert chosen == sorted(set(chosen))
    gaps = [b**0.5 - a**0.5 for a, b in itertools.pairwise(chosen)]
    # a gap is one part in ``points``, and a whole step where that is less than one
    assert all(gap <= max(2 * steps**0.5 / points, 1) for gap in gaps)


@pytest.mark.parametrize("name", DATA_SETS)
def test_delta_must_be_below_one_over_n(name):
    size = DATA_SETS[name].train_size
    model = next(model for model in MODELS if name in MODELS[model].parameters)
    given = {"dataset": name, "model": model}
    assert TrainingConfig.parse(given | {"delta": 0.99 / size}).delta < 1 / size
    with pytest.raises(ConfigError):
        TrainingConfig.parse(given | {"delta": 1 / size})
