"""Keywords of FastDP are translated, or rejected by name."""

import numpy as np
import pytest
import torch
from torch import nn

from dpsgd_explorer.compat.fastdp import KEYWORDS, PrivacyEngine
from dpsgd_explorer.errors import ConfigError

SIZES = {"batch_size": 10, "sample_size": 100, "noise_multiplier": 1.0}


def test_a_script_of_fastdp_trains_with_all_its_keywords():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = PrivacyEngine(
        model,
        **SIZES,
        num_steps=10,
        alphas=None,
        record_snr=False,
        numerical_stability_constant=0.01,
        num_GPUs=1,
        torch_seed_is_fixed=False,
        clipping_fn="automatic",
        clipping_mode="MixOpt",
    )
    engine.attach(optimizer)
    for x, y in engine.poisson_loader((torch.randn(100, 3), torch.randn(100, 1))):
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert engine.steps_done == engine.plan.steps == 10


@pytest.mark.parametrize("name", KEYWORDS)
def test_a_keyword_without_equivalent_is_rejected_with_a_remedy(name):
    for value in ("other", [2.0], torch.ones(3), np.linspace(2, 10, 5)):
        with pytest.raises(ConfigError, match=name) as error:
            PrivacyEngine(nn.Linear(3, 1), **SIZES, epochs=1, **{name: value})
        assert error.value.field == name


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("unknown_keyword", {"unknown_keyword": 1}),
        ("steps", {"num_steps": 10, "steps": 10}),
        ("batch_size", {"batch_size": 0, "epochs": 1}),
    ],
)
def test_other_arguments_are_rejected_by_name(name, arguments):
    with pytest.raises(ConfigError, match=name) as error:
        PrivacyEngine(nn.Linear(3, 1), **SIZES | arguments)
    assert error.value.field == name
