"""The models by name, and the fixed transform that some of them stand behind."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.training.datasets.scattering import Scattering


def build(model: str, dataset: str, seed: int) -> nn.Module:
    """Return the model for a data set, its parameters drawn from the seed.

    The state of torch's global generator is what it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BUILDERS[model](
            DATA_SETS[dataset].input_shape, DATA_SETS[dataset].classes
        )


def logistic(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return one linear layer on the record itself."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes))


def mlp(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return two hidden layers of 256 and 128 units with ReLU."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(input_shape), 256),
        nn.ReLU(),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )


def cnn(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return the small tanh network for pictures of 28 by 28.

    Channels last in memory, which halves the time of pooling and convolutions.

    Source: Papernot et al. (2020), arXiv:2007.14191v1, in the form of Tramèr and
    Boneh (2021), arXiv:2011.11660v3.
    """
    network = nn.Sequential(
        nn.Conv2d(input_shape[0], 16, kernel_size=8, stride=2, padding=3),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, kernel_size=4, stride=2),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.Tanh(),
        nn.Linear(32, classes),
    )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def scattering_linear(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return one linear layer on the scattering features of a square picture."""
    return nn.Linear(Scattering(input_shape[-1]).features, classes)


Builder = Callable[[tuple[int, ...], int], nn.Module]

BUILDERS: dict[str, Builder] = {
    "scattering_linear": scattering_linear,
    "logistic": logistic,
    "mlp": mlp,
    "cnn": cnn,
}

# Models that do not see the record itself but a fixed transform of it.
TRANSFORMS: dict[str, Callable[[tuple[int, ...]], Scattering]] = {
    "scattering_linear": lambda input_shape: Scattering(input_shape[-1]),
}
