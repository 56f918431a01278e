"""Trainers of other libraries draw Poisson batches, and reject other runs."""

import pytest

from dpsgd_explorer.accounting import banded_strategy
from dpsgd_explorer.errors import ConfigError


@pytest.mark.parametrize("sampling", ["random_allocation", "fixed_slots"])
def test_a_callback_rejects_batches_of_once_per_epoch(sampling):
    lightning = pytest.importorskip("dpsgd_explorer.integrations.lightning")
    with pytest.raises(ConfigError, match="sampling must be left out"):
        lightning.DPCallback(noise_multiplier=1.0, sampling=sampling)


def test_a_callback_rejects_correlated_noise():
    lightning = pytest.importorskip("dpsgd_explorer.integrations.lightning")
    with pytest.raises(ConfigError, match="noise_correlation must be left out"):
        lightning.DPCallback(
            noise_multiplier=1.0, noise_correlation=banded_strategy(10, bands=2)
        )


@pytest.mark.parametrize(
    "name",
    ["batch_size", "sample_size", "steps", "epochs", "plan", "physical_batch_size"],
)
def test_a_trainer_decides_sizes_and_length(name):
    """A trainer of Hugging Face would otherwise take parts for whole batches."""
    lightning = pytest.importorskip("dpsgd_explorer.integrations.lightning")
    transformers = pytest.importorskip("dpsgd_explorer.integrations.transformers")
    with pytest.raises(ConfigError, match=f"{name} must be left out"):
        lightning.DPCallback(noise_multiplier=1.0, **{name: 5})
    with pytest.raises(ConfigError, match=f"{name} must be left out"):
        transformers.DPTrainer(privacy={"noise_multiplier": 1.0, name: 5})
