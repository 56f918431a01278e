"""The models that everything is measured on: shapes, not data sets.

Inputs are random; what a step costs does not depend on what they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from dpsgd_explorer.training.models import (
    VOCABULARY,
    LastStateClassifier,
    TransformerClassifier,
    cnn_cifar,
    logistic,
    perceptron,
    tanh_cnn,
)

LENGTH = 64


@dataclass(frozen=True)
class Case:
    """A model, the batch it is measured at, and how to draw one.

    Attributes:
        name: As in the tables.
        make: Returns the model; seed before.
        sample_shape: Of one input.
        ids: Whether inputs are token ids rather than numbers.
        classes: Of the targets.
        batch: Samples a step.
        sizes: What else ``growth.case_of`` needs to make it again.
    """

    name: str
    make: Callable[[], nn.Module]
    sample_shape: tuple[int, ...]
    ids: bool
    classes: int
    batch: int
    sizes: tuple[int, ...] = ()

    def model(self) -> nn.Module:
        """Return the model, the same each time."""
        torch.manual_seed(0)
        return self.make()

    def data(self) -> tuple[Tensor, Tensor]:
        """Return (inputs, targets), the same each time."""
        generator = torch.Generator().manual_seed(1)
        shape = (self.batch, *self.sample_shape)
        if self.ids:
            x = torch.randint(0, VOCABULARY, shape, generator=generator)
        else:
            x = torch.randn(shape, generator=generator)
        y = torch.randint(0, self.classes, (self.batch,), generator=generator)
        return x, y


def _wide_mlp() -> nn.Module:
    return perceptron(784, 2048, 2048, 10)


def _small_mlp() -> nn.Module:
    return perceptron(784, 256, 128, 10)


_ALL = (
    Case("logreg", partial(logistic, (784,), 10), (784,), False, 10, 1024),
    Case("mlp", _small_mlp, (784,), False, 10, 256),
    Case("wide_mlp", _wide_mlp, (784,), False, 10, 512),
    Case("cnn", tanh_cnn, (1, 28, 28), False, 10, 512),
    Case("cnn_cifar", cnn_cifar, (3, 32, 32), False, 10, 256),
    Case("lstm", LastStateClassifier, (LENGTH,), True, 2, 128),
    Case("transformer", TransformerClassifier, (LENGTH,), True, 2, 64),
)

CASES: dict[str, Case] = {case.name: case for case in _ALL}
