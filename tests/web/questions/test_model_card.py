"""The card of a model says what the library does."""

import pytest

from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.model_card import RECORDED, card_of
from dpsgd_explorer.web.questions.plan_preview import layer_answers
from dpsgd_explorer.web.recorded.files import recording
from tools.record.model_cards import norm_methods

PAIRS = [
    (data, model)
    for model in MODELS
    for data in MODELS[model].parameters
    if f"{data}-{model}" in recording(RECORDED)["cards"]
]
CNN = {"model": "cnn", "expected_batch_size": 64, "steps": 2}


@pytest.mark.parametrize(("dataset", "model"), PAIRS)
def test_the_recorded_norm_methods_are_those_of_the_library(dataset, model):
    card = recording(RECORDED)["cards"][f"{dataset}-{model}"]
    assert card["norm_methods"] == norm_methods(dataset, model)


@pytest.mark.parametrize(("dataset", "model"), PAIRS)
def test_every_layer_has_its_method_and_reason(dataset, model):
    config = TrainingConfig.parse({"dataset": dataset, "model": model, "steps": 2})
    layers = layer_answers(config)
    assert {layer.norm_method for layer in layers} <= {"ghost", "instantiate"}
    assert all(layer.reason for layer in layers)
    assert card_of(config).step_bytes > 0


def methods(**settings):
    layers = layer_answers(TrainingConfig.parse(CNN | settings))
    return [layer.norm_method for layer in layers]


def test_the_clipping_mode_decides():
    assert methods() == ["instantiate", "instantiate", "ghost", "ghost"]
    assert set(methods(clipping_mode="ghost")) == {"ghost"}
    assert set(methods(clipping_mode="instantiate")) == {"instantiate"}


@pytest.mark.parametrize(
    "settings", [{"widths": "8, 8"}, {"engine": "vmap"}, {"private": False}], ids=str
)
def test_nothing_is_said_of_what_was_not_recorded(settings):
    assert card_of(TrainingConfig.parse(CNN | settings)) is None
    assert set(methods(**settings)) == {""}


def test_the_default_and_the_presets_have_a_card():
    for preset in PRESETS:
        config = TrainingConfig.parse(preset.config)
        assert (config.dataset, config.model) in PAIRS


def test_the_usual_widths_may_be_written_out():
    assert methods(widths="16, 32, 32") == methods()
