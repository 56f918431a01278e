import pytest
import torch

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.experiments.architecture import PRE_TRAINED
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.training import models

PAIRS = [(model, data) for model in MODELS for data in MODELS[model].parameters]


def weights(model, dataset, seed):
    return list(models.build(model, dataset, seed).parameters())


@pytest.mark.parametrize(("model", "dataset"), PAIRS)
def test_the_seed_decides_the_first_parameters(model, dataset):
    first, again, other = (weights(model, dataset, seed) for seed in (5, 5, 6))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    equal = [torch.equal(a, b) for a, b in zip(first, other, strict=True)]
    assert all(equal) if model == PRE_TRAINED else not any(equal)


@pytest.mark.parametrize(("model", "dataset"), PAIRS)
def test_building_leaves_the_global_generator_alone(model, dataset):
    before = torch.get_rng_state()
    models.build(model, dataset, seed=5)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_generator_does_not_change_the_parameters():
    first = weights("cnn", "mnist", 5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(99)
        second = weights("cnn", "mnist", 5)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(("model", "dataset"), PAIRS)
def test_the_privacy_engine_accepts_every_model(model, dataset):
    built = models.build(model, dataset, seed=1)
    engine = PrivacyEngine(
        built,
        batch_size=8,
        sample_size=100,
        steps=1,
        noise_multiplier=1.0,
        noise="seeded",
        seed=1,
    )
    engine.attach(torch.optim.SGD(built.parameters(), lr=0.1))
    engine.detach()
