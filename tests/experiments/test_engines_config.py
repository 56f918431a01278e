"""What a comparison of the engines may be asked, and what it says of itself."""

import pytest

from dpsgd_explorer.dp.config import ENGINES as MECHANISMS
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.engines_config import (
    CONTENDERS,
    MEASURED,
    MOST_A_STEP,
    EnginesConfig,
)
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import ENGINES
from dpsgd_explorer.settings import Settings
from dpsgd_explorer.training.engine_comparison import BUILDERS, INPUTS


def test_the_engines_offered_are_those_there_are():
    assert list(ENGINES) == list(MECHANISMS)
    assert ("ordinary", *MECHANISMS) == CONTENDERS
    assert EnginesConfig().planned_steps == len(CONTENDERS)


@pytest.mark.parametrize("model", MEASURED)
@pytest.mark.parametrize("width", [4, 64])
def test_a_model_has_as_many_parameters_as_are_said(model, width):
    config = EnginesConfig(model=model, width=width)
    built = BUILDERS[model](width)
    assert config.parameters == sum(p.numel() for p in built.parameters())
    assert MEASURED.keys() == BUILDERS.keys() == INPUTS.keys()


def test_the_largest_comparison_is_let_in_and_grows_with_its_sizes():
    sizes = {"model": "cnn", "width": 64, "batch_size": 256}
    large = EnginesConfig.parse(sizes)
    assert 0.5 * MOST_A_STEP < large.step_cost <= MOST_A_STEP
    assert EnginesConfig().cost < large.cost < Settings.run_cost


def test_an_engine_is_a_setting_of_a_training_and_hooks_the_usual_one():
    assert TrainingConfig().engine == "hooks"
    with pytest.raises(ConfigError, match="engine must be one of hooks, extending"):
        TrainingConfig.parse({"engine": "opacus"})


def test_micro_batches_cost_more_and_only_with_privacy():
    usual = TrainingConfig(noise_multiplier=1.0)
    slow = TrainingConfig(noise_multiplier=1.0, engine="microbatch")
    assert slow.cost > 5 * usual.cost
    open_run = {"noise_multiplier": 1.0, "private": False}
    plain = TrainingConfig(**open_run)
    assert TrainingConfig(**open_run, engine="microbatch").cost == plain.cost


def test_gradients_that_would_not_fit_are_refused_with_what_to_do():
    with pytest.raises(ConfigError, match="smaller expected_batch_size") as refusal:
        TrainingConfig.parse({"model": "mlp", "engine": "vmap"})
    assert refusal.value.field == "engine"
    assert TrainingConfig(model="mlp", engine="vmap", expected_batch_size=256)
    assert TrainingConfig(model="mlp", engine="vmap", private=False)


def test_an_engine_that_cannot_take_a_layer_is_refused_with_what_to_do():
    names = {"dataset": "names", "model": "char_lstm", "expected_batch_size": 64}
    with pytest.raises(ConfigError, match=r"LSTM.+Take another engine") as refusal:
        TrainingConfig.parse(names | {"engine": "vmap"})
    assert refusal.value.field == "engine"
    assert TrainingConfig.parse(names | {"engine": "vmap", "private": False})
    assert TrainingConfig.parse(names | {"engine": "microbatch"})
