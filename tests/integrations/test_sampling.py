"""Trainers of other libraries draw Poisson batches, and reject another sampling."""

import pytest

from dpsgd_explorer.errors import ConfigError


def test_a_callback_rejects_random_allocation():
    lightning = pytest.importorskip("dpsgd_explorer.integrations.lightning")
    with pytest.raises(ConfigError, match="sampling must be left out"):
        lightning.DPCallback(noise_multiplier=1.0, sampling="random_allocation")
