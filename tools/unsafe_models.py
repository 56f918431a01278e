"""Models that look harmless but cannot be trained with the guarantee.

docs/reference/sharp-edges.md shows their source and the engine's message.
"""

# ruff: noqa: D101, D103 - the page explains each model next to its source

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEATURES, WIDTH, CLASSES = 4, 6, 3


def inputs() -> Tensor:
    """Return a batch of records."""
    return torch.randn(5, FEATURES)


def around(*inside: nn.Module) -> nn.Module:
    """Return a small network with the given modules in the middle."""
    return nn.Sequential(nn.Linear(FEATURES, WIDTH), *inside, nn.Linear(WIDTH, CLASSES))


def frozen(module: nn.Module) -> nn.Module:
    """Return the module in evaluation mode, with parameters that are not trained."""
    return module.requires_grad_(False).eval()


class OwnStandardise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) / (x.std(0, unbiased=False) + 1e-5)


class Peek(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * x.roll(1, 0)  # the record before this one in the batch


class Attend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 1)  # batch_first is False

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(1).expand(-1, 2, -1)  # [batch, positions, features]
        attended: Tensor = self.attention(x, x, x)[0]
        return attended.sum(1)


class Remember(nn.Module):
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.lerp_(x.detach().mean(0), 0.1)
        return x


class Borrow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.body(x)
        called: Tensor = self.head(hidden)
        return called + hidden @ self.head.weight  # not by calling it


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain if x.sum() > 0 else x


class CentredLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trained = nn.Linear(WIDTH, WIDTH)
        teacher = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        teacher.weight = self.trained.weight  # "frozen", yet the trained weight
        self.teacher = [teacher]

    def forward(self, x: Tensor) -> Tensor:
        (teacher,) = self.teacher
        difference: Tensor = self.trained(x) - teacher(x.tanh())
        return difference


def batch_mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    centred = outputs - outputs.mean(0)
    return F.cross_entropy(centred, targets)


def contrastive_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    similarity = F.normalize(outputs, dim=1) @ F.normalize(outputs, dim=1).T
    return F.cross_entropy(similarity, torch.arange(len(outputs)))


class RareMixup(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.rand(1) < 0.01:  # one step in a hundred
            x = 0.7 * x + 0.3 * x[torch.randperm(len(x))]
        return x


@dataclass(frozen=True)
class Unsafe:
    """One unsafe model.

    Attributes:
        title: Title on the page.
        why: Why clipping does not bound a record's influence on it.
        make: Returns the model.
        code: Classes and functions whose source is shown.
        line: Additional line of source.
        loss_fn: Loss function, if the loss is unsafe.
    """

    title: str
    why: str
    make: Callable[[], nn.Module]
    code: tuple[Any, ...] = ()
    line: str = ""
    loss_fn: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy


GALLERY = (
    Unsafe(
        "Batch normalisation",
        "A record's output is scaled by all others of its batch.",
        lambda: around(nn.BatchNorm1d(WIDTH)),
        line="nn.BatchNorm1d(6)",
    ),
    Unsafe(
        "Batch normalisation, frozen",
        "`requires_grad_(False)` and `eval()` hold only until `train()` is called.",
        lambda: around(frozen(nn.BatchNorm1d(WIDTH))),
        line="nn.BatchNorm1d(6).requires_grad_(False).eval()",
    ),
    Unsafe(
        "Batch normalisation without parameters",
        "It has no parameters, so a check of trainable layers does not detect it.",
        lambda: around(nn.Sequential(nn.BatchNorm1d(WIDTH, affine=False))),
        line="nn.Sequential(nn.BatchNorm1d(6, affine=False))",
    ),
    Unsafe(
        "Batch normalisation by hand",
        "The engine measures gradients, whatever the name of the module is.",
        lambda: around(OwnStandardise()),
        (OwnStandardise,),
    ),
    Unsafe(
        "Reading another record",
        "One neighbour is enough: a record then changes two clipped gradients.",
        lambda: around(Peek()),
        (Peek,),
    ),
    Unsafe(
        "Mixing in some steps only",
        "A random number for the whole batch decides. The check sets the random "
        "numbers of the batch and of each record to both ends of their range and to "
        "eight places inside it. A branch that is chosen in less than an eighth of the "
        "inside is not detected.",
        lambda: around(RareMixup()),
        (RareMixup,),
    ),
    Unsafe(
        "Attention over the batch",
        "With `batch_first=False`, the first dimension is the sequence: the records "
        "of the batch attend to each other.",
        lambda: around(Attend()),
        (Attend,),
    ),
    Unsafe(
        "A statistic in a buffer",
        "The buffer is released with the model, and its values have no noise.",
        lambda: around(Remember()),
        (Remember,),
    ),
    Unsafe(
        "A parameter used outside its layer",
        "The layer clips its gradient, but misses the gradient from the other use. The "
        "engine can run a module inside the model on single records, but not the "
        "whole model.",
        Borrow,
        (Borrow,),
    ),
    Unsafe(
        "A parameter that no rule reaches",
        "The forward pass computes a value from the whole batch, so no single record "
        "has a gradient.",
        lambda: around(Gate()),
        (Gate,),
    ),
    Unsafe(
        "A subclass with another forward",
        "Its class is a `Linear`, but its forward pass centres the batch.",
        lambda: around(CentredLinear(WIDTH, WIDTH)),
        (CentredLinear,),
    ),
    Unsafe(
        "Weights tied across a frozen border",
        "The teacher looks frozen, but its weight is the trained one.",
        lambda: around(Tied()),
        (Tied,),
    ),
    Unsafe(
        "A contrastive loss",
        "Every record is in every other record's term. A loss that takes a mean of the "
        "batch away, such as `batch_mean_loss`, is rejected in the same way.",
        around,
        (batch_mean_loss, contrastive_loss),
        loss_fn=contrastive_loss,
    ),
)
