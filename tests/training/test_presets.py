import subprocess
import sys

import pytest

from dpsgd_explorer.settings import Settings
from dpsgd_explorer.training.config import TrainingConfig
from dpsgd_explorer.training.cost import check_cost
from dpsgd_explorer.training.presets import PRESETS


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


@pytest.mark.parametrize(
    "module", ["catalogue", "config", "cost", "events", "performance", "presets"]
)
def test_what_the_web_layer_reads_loads_no_torch(module):
    code = f"""
import sys
import dpsgd_explorer.training.{module}
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
