import pytest

from dpsgd_explorer.experiments.config import check_cost
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.settings import Settings


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.slug)
def test_a_preset_is_a_valid_private_run_within_the_bound(preset):
    config = TrainingConfig.parse(preset.config)
    assert config.plan.epsilon() <= config.target_epsilon
    check_cost(config, Settings.run_cost)


def test_slugs_are_unique_and_fit_for_an_address():
    slugs = [preset.slug for preset in PRESETS]
    assert len(set(slugs)) == len(slugs)
    assert all(slug.replace("-", "").isalnum() for slug in slugs)


def test_the_first_preset_is_the_default_run():
    assert TrainingConfig.parse(PRESETS[0].config) == TrainingConfig.parse({})
