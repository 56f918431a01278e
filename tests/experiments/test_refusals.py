"""A setting outside its domain is refused by name, with the rule and what came."""

import math

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.experiments.planted_bug_config import PlantedBugConfig
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig

ALL = [
    ({"colour": "red"}, "colour", "unknown setting"),
    ([], "", "object of settings"),
]
TRAINING = [
    ({"learning_rate": math.nan}, "learning_rate", "nan"),
    ({"learning_rate": math.inf}, "learning_rate", "inf"),
    ({"learning_rate": "8"}, "learning_rate", "'8'"),
    ({"learning_rate": 0}, "learning_rate", "greater than 0"),
    ({"steps": 2.5}, "steps", "whole number"),
    ({"steps": 0}, "steps", "at least 1"),
    ({"steps": True}, "steps", "True"),
    ({"noise_multiplier": -0.1}, "noise_multiplier", "-0.1"),
    ({"max_grad_norm": 0}, "max_grad_norm", "greater than 0"),
    ({"expected_batch_size": 0}, "expected_batch_size", "at least 1"),
    ({"expected_batch_size": 60_001}, "expected_batch_size", "60000"),
    (
        {"dataset": "adult", "model": "logistic", "expected_batch_size": 32_562},
        "expected_batch_size",
        "32561",
    ),
    ({"noise_multiplier": 1.0, "target_epsilon": 3.0}, "noise_multiplier", "not both"),
    ({"steps": 10, "epochs": 1.0}, "steps", "not both"),
    ({"delta": 1 / 60_000}, "delta", "1/60000"),
    ({"delta": 0}, "delta", "greater than 0"),
    ({"model": "resnet"}, "model", "scattering_linear"),
    ({"dataset": "cifar"}, "dataset", "mnist"),
    ({"dataset": "adult", "model": "cnn"}, "model", "fitting: logistic"),
    ({"accountant": "psychic"}, "accountant", "rdp"),
    ({"private": "yes"}, "private", "'yes'"),
    ({"seed": 2**31}, "seed", "2147483648"),
]
REGRESSION = [
    ({"noise_multiplier": 0}, "noise_multiplier", "greater than 0"),
    ({"noise_multiplier": "50"}, "noise_multiplier", "'50'"),
    ({"steps": 0}, "steps", "at least 1"),
    ({"steps": 1.5}, "steps", "whole number"),
    ({"target_epsilon": 0}, "target_epsilon", "greater than 0"),
    (
        {"steps": 9, "noise_multiplier": 2.0, "target_epsilon": 1.0},
        "steps",
        "give two of",
    ),
    ({"noise_multiplier": 1.0, "target_epsilon": 0.1}, "noise_multiplier", "Raise"),
    ({"noise_multiplier": 1e6, "target_epsilon": 9.0}, "noise_multiplier", "Lower"),
    ({"delta": 1e-3}, "delta", "less than 4.84"),
    ({"x_bound": 0}, "x_bound", "greater than 0"),
    ({"y_bound": -1}, "y_bound", "greater than 0"),
    ({"rows": "refuse"}, "rows", "normalize, clip"),
    ({"neighboring_relation": "twins"}, "neighboring_relation", "replace_one"),
    (
        {"learning_rate": "best"},
        "learning_rate",
        "public, notebook, released or",
    ),
    ({"learning_rate": 0}, "learning_rate", "above 0"),
    ({"learning_rate": True}, "learning_rate", "True"),
    ({"learning_rate": math.nan}, "learning_rate", "nan"),
    ({"learning_rate": 1e9}, "learning_rate", "at most 10"),
    ({"learning_rate": [1]}, "learning_rate", "[1]"),
    ({"repetitions": 1001}, "repetitions", "at most 1000"),
    ({"evaluations": 0}, "evaluations", "at least 1"),
    ({"seed": 2**31}, "seed", "2147483648"),
]
ENGINES = [
    ({"width": 1028}, "width", "1028"),
    ({"width": 6}, "width", "6"),
    ({"batch_size": 0}, "batch_size", "at least 1"),
    ({"sequence_length": 257}, "sequence_length", "257"),
    ({"model": "resnet"}, "model", "resnet"),
    ({"width": 1024, "batch_size": 512}, "batch_size", "batch_size"),
    ({"engine": "hooks"}, "engine", "unknown setting"),
]
PLANTED_BUGS = [
    ({"loop": "no_such"}, "loop", "no_such"),
    ({"loop": ""}, "loop", "honest"),
    ({"loop": 3}, "loop", "3"),
    ({"seed": -1}, "seed", "-1"),
    ({"seed": 1.5}, "seed", "1.5"),
    ({"steps": 5}, "steps", "unknown setting"),
]
BAD = {
    TrainingConfig: ALL + TRAINING,
    RegressionConfig: ALL + REGRESSION,
    EnginesConfig: ALL + ENGINES,
    PlantedBugConfig: ALL + PLANTED_BUGS,
}


@pytest.mark.parametrize(
    ("config", "values", "field", "part"),
    [(config, *row) for config, rows in BAD.items() for row in rows],
    ids=str,
)
def test_bad_input_is_refused_with_field_rule_and_what_came(
    config, values, field, part
):
    with pytest.raises(ConfigError) as refusal:
        config.parse(values)
    assert refusal.value.field == field
    assert part in str(refusal.value)
