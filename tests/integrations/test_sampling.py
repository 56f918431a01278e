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
