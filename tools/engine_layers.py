"""The layers that docs/reference/engines.md measures, each at one shape or more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

ROWS = 1000
"""Rows of embedding tables."""


@dataclass(frozen=True)
class Layer:
    """One layer at one shape.

    Attributes:
        name: Name in the table.
        make: Returns the layer.
        shape: Shape of its input, samples first.
        call: Calls the layer, if it needs more than its input.
    """

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    call: Callable[[nn.Module, Tensor], Any] = lambda layer, x: layer(x)

    def net(self) -> nn.Module:
        """Returns the layer after another layer, with equal parameters each time."""
        torch.manual_seed(0)
        return Alone(self.make(), self.call)

    def inputs(self, samples: int | None = None) -> Tensor:
        """Return random inputs, equal in every call."""
        generator = torch.Generator().manual_seed(1)
        shape = (samples or self.shape[0], *self.shape[1:])
        if self.name.startswith("Embedding"):
            return torch.randint(0, ROWS, shape, generator=generator)
        return torch.randn(shape, generator=generator)


class Alone(nn.Module):
    """One layer whose input requires a gradient too."""

    def __init__(
        self, layer: nn.Module, call: Callable[[nn.Module, Tensor], Any]
    ) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Tensor) -> Tensor:
        """Return the loss of each sample, of shape (B,)."""
        if x.is_floating_point():
            x = x.clone().requires_grad_() * 1.0
        output = self.call(self.layer, x)
        output = output[0] if isinstance(output, tuple) else output
        losses: Tensor = output.tanh().flatten(1).sum(1)
        return losses


class Scale(nn.Module):
    """A bare parameter in a module without a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(128))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled input."""
        return x * self.scale.exp()


def _attend(layer: nn.Module, x: Tensor) -> Any:
    return layer(x, x, x, need_weights=False)


def _twice(layer: nn.Module, x: Tensor) -> Any:
    return layer(layer(x).tanh())


LAYERS = [
    Layer("Linear 512-512", lambda: nn.Linear(512, 512), (64, 512)),
    Layer("Linear 256-256", lambda: nn.Linear(256, 256), (32, 16, 256)),
    Layer("Linear 256-256", lambda: nn.Linear(256, 256), (8, 256, 256)),
    Layer(
        "Linear 128-128 called twice",
        lambda: nn.Linear(128, 128),
        (32, 16, 128),
        _twice,
    ),
    Layer("Conv1d 32-64, 5", lambda: nn.Conv1d(32, 64, 5), (32, 32, 128)),
    Layer("Conv2d 16-32, 3", lambda: nn.Conv2d(16, 32, 3, padding=1), (32, 16, 32, 32)),
    Layer(
        "Conv2d 128-128, 3", lambda: nn.Conv2d(128, 128, 3, padding=1), (32, 128, 4, 4)
    ),
    Layer(
        "Conv2d 64-64, 3, depthwise",
        lambda: nn.Conv2d(64, 64, 3, groups=64),
        (32, 64, 16, 16),
    ),
    Layer(
        "Conv2d 32-32, 3, dilated, circular",
        lambda: nn.Conv2d(32, 32, 3, padding=2, dilation=2, padding_mode="circular"),
        (32, 32, 16, 16),
    ),
    Layer("Conv3d 8-16, 3", lambda: nn.Conv3d(8, 16, 3), (8, 8, 8, 8, 8)),
    Layer(
        "ConvTranspose1d 64-32, 4",
        lambda: nn.ConvTranspose1d(64, 32, 4, 2, 1),
        (32, 64, 32),
    ),
    Layer(
        "ConvTranspose2d 64-32, 4",
        lambda: nn.ConvTranspose2d(64, 32, 4, 2, 1),
        (32, 64, 8, 8),
    ),
    Layer(
        "ConvTranspose3d 16-8, 2",
        lambda: nn.ConvTranspose3d(16, 8, 2, 2),
        (8, 16, 6, 6, 6),
    ),
    Layer("Embedding 1000-64", lambda: nn.Embedding(ROWS, 64), (32, 64)),
    Layer("EmbeddingBag 1000-64", lambda: nn.EmbeddingBag(ROWS, 64), (32, 64)),
    Layer("LayerNorm 128", lambda: nn.LayerNorm(128), (32, 64, 128)),
    Layer("RMSNorm 128", lambda: nn.RMSNorm(128), (32, 64, 128)),
    Layer("GroupNorm 8 of 64", lambda: nn.GroupNorm(8, 64), (32, 64, 16, 16)),
    Layer(
        "InstanceNorm1d 64", lambda: nn.InstanceNorm1d(64, affine=True), (32, 64, 64)
    ),
    Layer(
        "InstanceNorm2d 64",
        lambda: nn.InstanceNorm2d(64, affine=True),
        (32, 64, 16, 16),
    ),
    Layer(
        "InstanceNorm3d 16",
        lambda: nn.InstanceNorm3d(16, affine=True),
        (16, 16, 8, 8, 8),
    ),
    Layer("PReLU 64", lambda: nn.PReLU(64), (32, 64, 16, 16)),
    Layer("RNN 64-128", lambda: nn.RNN(64, 128, batch_first=True), (32, 32, 64)),
    Layer("GRU 64-128", lambda: nn.GRU(64, 128, batch_first=True), (32, 32, 64)),
    Layer("LSTM 64-128", lambda: nn.LSTM(64, 128, batch_first=True), (32, 32, 64)),
    Layer(
        "MultiheadAttention 128",
        lambda: nn.MultiheadAttention(128, 4, batch_first=True),
        (16, 64, 128),
        _attend,
    ),
    Layer(
        "TransformerEncoderLayer 64",
        lambda: nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True),
        (16, 32, 64),
    ),
    Layer("a module without rule", Scale, (32, 64, 128)),
]
