"""Each setting is described once; the models only narrow it."""

import pytest

from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.experiments.planted_bug_config import PlantedBugConfig
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.regression_methods_config import (
    RegressionMethodsConfig,
)
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import SETTINGS
from dpsgd_explorer.web.labs.accountants.page import RaceQuestion
from dpsgd_explorer.web.labs.planner.question import BudgetQuestion
from dpsgd_explorer.web.labs.regression.question import RegressionQuestion

MODELS = (
    TrainingConfig,
    RegressionConfig,
    RegressionMethodsConfig,
    EnginesConfig,
    PlantedBugConfig,
    SearchConfig,
    AttackConfig,
    BudgetQuestion,
    RaceQuestion,
    RegressionQuestion,
)
# A quantity that means something else in a model says so in its label.
RELABELLED = {
    (RegressionConfig, "noise_multiplier"): "Noise of a step",
    (RegressionQuestion, "noise_multiplier"): "Noise of a step",
    (RegressionQuestion, "delta"): "Delta",
    (RegressionQuestion, "learning_rate"): "Own rate",
}


@pytest.mark.parametrize("model", MODELS)
def test_a_model_takes_each_setting_under_its_name_in_the_vocabulary(model):
    asked = {
        name: field
        for name, field in model.model_fields.items()
        if name in SETTINGS and field.json_schema_extra
    }
    assert asked
    for name, field in asked.items():
        expected = RELABELLED.get((model, name), SETTINGS[name].label)
        assert (name, field.title) == (name, expected)
        assert field.description == field.json_schema_extra["help"]


def test_every_setting_is_used_by_a_model():
    used = {name for model in MODELS for name in model.model_fields}
    assert set(SETTINGS) - used == set()


@pytest.mark.parametrize(
    ("name", "limits"),
    {
        "lower": ("width", {"ge": 3}),
        "higher": ("width", {"le": 1025}),
        "closed below": ("epochs", {"ge": 0}),
        "closed above": ("momentum", {"le": 1}),
        "both": ("delta", {"gt": -1, "lt": 2}),
    }.values(),
)
def test_no_model_can_widen_a_domain(name, limits):
    with pytest.raises(ValueError, match="must lie within"):
        SETTINGS[name].narrowed(**limits)


def test_a_limit_replaces_the_one_on_its_side():
    assert SETTINGS["steps"].narrowed(gt=1).limits == {
        "gt": 1,
        "le": SETTINGS["steps"].le,
    }
