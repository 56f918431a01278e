"""Models for the measurement of steps, with random inputs of their shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from dpsgd_explorer.experiments.architecture import FULL
from dpsgd_explorer.training.models import (
    VOCABULARY,
    LastStateClassifier,
    Shape,
    TransformerClassifier,
    cnn_cifar,
    logistic,
    perceptron,
    tanh_cnn,
)

LENGTH = 64


@dataclass(frozen=True)
class Case:
    """A model, its batch size, and its random data.

    Attributes:
        name: Name in the tables.
        make: Returns the model; call it after seeding.
        sample_shape: Shape of one input.
        ids: If True, inputs are token ids rather than numbers.
        classes: Number of classes of the targets.
        batch: Samples per step.
        size: Size along the axis ``name``, for a growing case; None for the table.
    """

    name: str
    make: Callable[[], nn.Module]
    sample_shape: tuple[int, ...]
    ids: bool
    classes: int
    batch: int
    size: int | None = None

    @property
    def key(self) -> str:
        """Return the name for ``case_named``."""
        return self.name if self.size is None else f"{self.name}:{self.size}"

    def model(self) -> nn.Module:
        """Return the model, with equal parameters in every call."""
        torch.manual_seed(0)
        return self.make()

    def data(self) -> tuple[Tensor, Tensor]:
        """Return (inputs, targets), equal in every call."""
        generator = torch.Generator().manual_seed(1)
        shape = (self.batch, *self.sample_shape)
        if self.ids:
            x = torch.randint(0, VOCABULARY, shape, generator=generator)
        else:
            x = torch.randn(shape, generator=generator)
        y = torch.randint(0, self.classes, (self.batch,), generator=generator)
        return x, y


FLAT = Shape((784,), 10, (), "", FULL)
_ALL = (
    Case("logreg", partial(logistic, FLAT), (784,), False, 10, 1024),
    Case("mlp", partial(perceptron, 784, 256, 128, 10), (784,), False, 10, 256),
    Case("wide_mlp", partial(perceptron, 784, 2048, 2048, 10), (784,), False, 10, 512),
    Case("cnn", tanh_cnn, (1, 28, 28), False, 10, 512),
    Case("cnn_cifar", cnn_cifar, (3, 32, 32), False, 10, 256),
    Case("lstm", LastStateClassifier, (LENGTH,), True, 2, 128),
    Case("transformer", TransformerClassifier, (LENGTH,), True, 2, 64),
)

CASES: dict[str, Case] = {case.name: case for case in _ALL}


def _width_case(width: int) -> Case:
    make = partial(perceptron, 784, width, width, 10)
    return Case("width", make, (784,), False, 10, 64, width)


def _length_case(length: int) -> Case:
    return Case("length", TransformerClassifier, (length,), True, 2, 8, length)


def _batch_case(batch: int) -> Case:
    return replace(CASES["mlp"], name="batch", batch=batch, size=batch)


GROWING: dict[str, dict[int, Case]] = {
    "batch": {size: _batch_case(size) for size in (16, 64, 256, 1024, 4096)},
    "width": {size: _width_case(size) for size in (64, 256, 1024, 4096)},
    "length": {size: _length_case(size) for size in (16, 64, 256, 1024)},
}


def case_named(key: str) -> Case:
    """Return the case with a key, from the table or growing."""
    name, _, size = key.partition(":")
    return GROWING[name][int(size)] if size else CASES[name]
