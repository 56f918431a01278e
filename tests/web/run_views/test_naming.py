"""Runs that nobody named are told apart by what differs from a preset."""

import pytest

from dpsgd_explorer.experiments.kinds import KINDS, parse
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.run_views.naming import default_name
from dpsgd_explorer.web.run_views.registry import VIEWS, register_views

ADULT = next(preset.config for preset in PRESETS if preset.slug == "adult")


@pytest.fixture(autouse=True)
def _registered():
    register_views()


def name(**changes):
    config = TrainingConfig.parse(changes).model_dump(mode="json")
    return default_name(VIEWS["training"], config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "MNIST digits, ε = 3"),
        ({"seed": 8}, "MNIST digits, ε = 3"),
        (ADULT, "Adult income, ε = 1"),
        (
            ADULT | {"learning_rate": 5.0, "seed": 8},
            "Adult income, ε = 1 · η 5",
        ),
        (ADULT | {"target_epsilon": 0.5}, "Adult income, ε = 0.5"),
        (
            {"noise_multiplier": 2.0, "optimizer": "adam"},
            "MNIST digits, σ = 2 · Adam",
        ),
        ({"model": "cnn"}, "MNIST digits, convolutional network, ε = 3"),
        (
            {"private": False, "max_grad_norm": 3.0},
            "MNIST digits, without privacy",  # nothing is clipped
        ),
        ({"epochs": 2.5}, "MNIST digits, ε = 3 · epochs 2.5"),
        # Several settings have this symbol.
        (
            ADULT | {"filter_epsilon": 2.0},
            "Adult income, ε = 1 · budget for changes ε 2",
        ),
    ],
)
def test_a_name_says_what_differs_from_the_nearest_preset(config, expected):
    shown = name(**config)
    assert shown.startswith(expected)
    if config.get("model") != "cnn":  # of which settings are far from any preset
        assert shown == expected


def test_a_name_stays_short():
    far = {
        "expected_batch_size": 100,
        "steps": 7,
        "learning_rate": 1.0,
        "momentum": 0.0,
        "max_grad_norm": 2.0,
        "delta": 1e-6,
        "seed": 99,
    }
    shown = name(**far)
    assert shown.endswith(" · 2 more")
    assert shown.count(" · ") == 5


def test_every_preset_has_a_title_that_no_other_has():
    titles = [name(**preset.config) for preset in PRESETS]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_named_and_a_seed_is_left_out(kind):
    view = VIEWS[kind]
    usual = parse({"kind": kind}).model_dump(mode="json")
    assert default_name(view, usual) == view.title(usual)
    if "seed" in view.fields:
        other = usual | {"seed": 12345}
        assert default_name(view, other) == view.title(usual)


def test_a_run_older_than_a_setting_is_named_by_the_default():
    config = TrainingConfig.parse(ADULT).model_dump(mode="json")
    del config["clipping_style"]
    assert default_name(VIEWS["training"], config) == "Adult income, ε = 1"
