"""Layers that can be chosen: their counts are those of the real model."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import models

CHOSEN = [
    {"model": "mlp", "widths": "7"},
    {"model": "mlp", "widths": "256,128", "activation": "tanh"},
    {"model": "mlp", "widths": " 3, 5 ,2,9", "activation": "relu"},
    {"model": "cnn", "widths": "4, 6"},
    {"model": "cnn", "widths": "1, 2, 3", "activation": "relu"},
    {"model": "cnn", "widths": "16, 32, 32, 8"},
    {"model": "logistic"},
]


@pytest.mark.parametrize("settings", CHOSEN, ids=str)
def test_layers_are_those_of_the_model_that_is_trained(settings):
    config = TrainingConfig.parse(settings)
    built = models.of_config(config, seed=1)
    layers = {
        name: (type(module).__name__, sum(p.numel() for p in module.parameters()))
        for name, module in built.named_modules()
        if not list(module.children()) and list(module.parameters())
    }
    told = {layer.name: (layer.kind, layer.parameters) for layer in config.layers}
    assert told == layers
    shapes = {}
    for name, module in built.named_modules():
        if name in layers:
            module.register_forward_hook(
                lambda _, __, out, name=name: shapes.update({name: out.shape[1:]})
            )
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        built(torch.rand(1, *config.data.input_shape))
    assert {layer.name: layer.output_shape for layer in config.layers} == shapes
    adds = sum(layer.multiply_adds for layer in config.layers)
    assert adds == counter.get_total_flops() / 2


def test_an_activation_is_between_all_layers():
    config = TrainingConfig.parse({"model": "cnn", "activation": "relu"})
    kinds = [type(module) for module in models.of_config(config, 1).modules()]
    assert kinds.count(torch.nn.ReLU) == 3
    assert torch.nn.Tanh not in kinds


def test_wider_layers_cost_more():
    narrow, wide = (
        TrainingConfig.parse({"model": "mlp", "widths": widths}).cost
        for widths in ("32", "1024")
    )
    assert wide > 20 * narrow


@pytest.mark.parametrize(
    ("model", "widths"),
    [
        ("mlp", "0"),
        ("mlp", "1025"),
        ("mlp", "1,2,3,4,5"),
        ("mlp", "12, wide"),
        ("mlp", "1e3"),
        ("mlp", "²"),
        ("mlp", "٣"),
        ("mlp", "-4"),
        ("mlp", ","),
        ("mlp", "9" * 5000),
        ("cnn", "16"),
        ("cnn", "129, 4"),
        ("cnn", "1,1,1,1,1"),
        ("logistic", "8"),
        ("mlp", "1024, 1024, 1024, 1024"),
    ],
)
def test_widths_that_no_model_can_have_are_refused(model, widths):
    with pytest.raises(ConfigError) as refusal:
        TrainingConfig.parse({"model": model, "widths": widths})
    assert refusal.value.field == "widths"


@pytest.mark.parametrize("heads", ["", " ,", "2", "1, 9", "3", "1, 1", "1.weight"])
def test_groups_that_do_not_fit_the_layers_are_refused(heads):
    with pytest.raises(ConfigError, match=r"1, 3, 5|first layer") as refusal:
        TrainingConfig.parse({"model": "mlp", "clipping_heads": heads})
    assert refusal.value.field == "clipping_heads"


def test_a_model_of_one_layer_has_no_groups_of_layers():
    with pytest.raises(ConfigError, match="must be left out for a model that is one"):
        TrainingConfig.parse({"model": "scattering_linear", "clipping_heads": "0"})


@pytest.mark.parametrize("style", [["0", "7"], [], ("0",)])
def test_a_list_of_heads_has_a_setting_of_its_own(style):
    with pytest.raises(ConfigError, match="in clipping_heads") as refusal:
        TrainingConfig.parse({"clipping_style": style})
    assert refusal.value.field == "clipping_style"


def test_the_engine_clips_the_groups_that_were_chosen():
    settings = {"model": "mlp", "widths": "3, 2", "clipping_heads": "5,1"}
    config = TrainingConfig.parse(settings)
    assert config.clipping_groups == ["1", "5"]
    built = models.of_config(config, seed=1)
    engine = PrivacyEngine(
        built, batch_size=2, sample_size=9, steps=1, noise_multiplier=1.0,
        clipping_style=config.clipping_groups,
    )  # fmt: skip
    assert engine.options.clipping_style == ["1", "5"]
    with pytest.raises(ConfigError, match="one norm"):
        TrainingConfig.parse(settings | {"clipping_schedule": "adaptive"})
