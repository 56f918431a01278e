"""The models that everything is measured on: shapes, not data sets.

Inputs are random; what a step costs does not depend on what they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

VOCABULARY = 2000
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


def logistic_regression() -> nn.Module:
    """Return 784-10."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def mlp(*widths: int) -> nn.Module:
    """Return a multilayer perceptron with ReLU between its layers."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn() -> nn.Module:
    """Return the small network of Papernot et al. for 28x28 images, with Tanh."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.Tanh(),
        nn.Linear(32, 10),
    )


def cnn_cifar() -> nn.Module:
    """Return six convolutions in three pairs, each pair followed by pooling."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (32, 64, 128):
        for _ in range(2):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.Tanh()]
            channels = width
        layers.append(nn.AvgPool2d(2))
    layers += [nn.Flatten(), nn.Linear(128 * 4 * 4, 128), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(128, 10))


class LastStateClassifier(nn.Module):
    """Embedding, LSTM, and a linear layer on the last hidden state."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 64)
        self.lstm = nn.LSTM(64, width, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids [B, T] to scores [B, 2]."""
        states, _ = self.lstm(self.embedding(ids))
        scores: Tensor = self.head(states[:, -1])
        return scores


class AttentionBlock(nn.Module):
    """Self-attention and a feed-forward part, each normalised first and added on."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.before_feed_forward = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, T, d] to [B, T, d]."""
        batch, length, width = x.shape
        qkv = self.query_key_value(self.before_attention(x))
        q, k, v = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.mix(attended.transpose(1, 2).reshape(batch, length, width))
        hidden = torch.relu(self.widen(self.before_feed_forward(x)))
        out: Tensor = x + self.narrow(hidden)
        return out


class TransformerClassifier(nn.Module):
    """Token embedding, two attention blocks, the mean over positions, a head."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        blocks = [AttentionBlock(width, heads) for _ in range(2)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids [B, T] to scores [B, 2]."""
        hidden = self.norm(self.blocks(self.embedding(ids)))
        scores: Tensor = self.head(hidden.mean(1))
        return scores


def _wide_mlp() -> nn.Module:
    return mlp(784, 2048, 2048, 10)


def _small_mlp() -> nn.Module:
    return mlp(784, 256, 128, 10)


_ALL = (
    Case("logreg", logistic_regression, (784,), False, 10, 1024),
    Case("mlp", _small_mlp, (784,), False, 10, 256),
    Case("wide_mlp", _wide_mlp, (784,), False, 10, 512),
    Case("cnn", cnn, (1, 28, 28), False, 10, 512),
    Case("cnn_cifar", cnn_cifar, (3, 32, 32), False, 10, 256),
    Case("lstm", LastStateClassifier, (LENGTH,), True, 2, 128),
    Case("transformer", TransformerClassifier, (LENGTH,), True, 2, 64),
)

CASES: dict[str, Case] = {case.name: case for case in _ALL}
