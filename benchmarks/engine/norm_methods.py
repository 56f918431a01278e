"""Norm methods chosen by measuring on this processor, against the estimate.

Two engines train each model in turns: one follows the estimate, the other its own
measurements.  The results also contain the times of each layer call with a choice.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import record
from benchmarks.models import CASES
from dpsgd_explorer.dp.engines.methods.norm_methods import NormChoice
from dpsgd_explorer.training.models import build
from dpsgd_explorer.training.timing import Step, private_step, time_in_turns

SECONDS = 20.0  # CPU time per model
CLASSES = 10


@dataclass(frozen=True)
class Measured:
    """A model and the shape of its inputs.

    Attributes:
        make: Returns the model; call it after seeding.
        sample_shape: Shape of one input.
        batch: Samples per step.
        ids: Number of token ids; 0 where inputs are numbers.
    """

    make: Callable[[], nn.Module]
    sample_shape: tuple[int, ...]
    batch: int
    ids: int = 0

    def data(self) -> tuple[Tensor, Tensor]:
        """Return (inputs, targets), the same each time."""
        generator = torch.Generator().manual_seed(1)
        shape = (self.batch, *self.sample_shape)
        if self.ids:
            x = torch.randint(0, self.ids, shape, generator=generator)
        else:
            x = torch.randn(shape, generator=generator)
        return x, torch.randint(0, 2, (self.batch,), generator=generator)


def depthwise() -> nn.Module:
    """Return three depthwise-separable blocks for pictures of 32 by 32 (MobileNet)."""

    def block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        return [
            nn.Conv2d(inputs, inputs, 3, stride, padding=1, groups=inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, 1),
            nn.GroupNorm(8, outputs),
            nn.ReLU(),
        ]

    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        *block(32, 64, 1),
        *block(64, 128, 2),
        *block(128, 128, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, CLASSES),
    )


class Residual(nn.Module):
    """Two convolutions with group norm, and a short-cut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.GroupNorm(16, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(16, outputs),
        )
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return [B, outputs, H / stride, W / stride]."""
        return torch.relu(self.body(x) + self.short(x))


def residual() -> nn.Module:
    """Return a small ResNet with group norm for pictures of 32 by 32."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        Residual(32, 64, 2),
        Residual(64, 128, 2),
        Residual(128, 256, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, CLASSES),
    )


class Encoder(nn.Module):
    """An encoder layer of a language model on vectors, and a linear layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores, [B, CLASSES], of vectors [B, T, width]."""
        scores: Tensor = self.head(self.layer(x).mean(1))
        return scores


def models() -> dict[str, Measured]:
    """Return the models of the table of steps that have a choice, and others."""
    cases = {
        name: Measured(
            case.make, case.sample_shape, case.batch, 1000 if case.ids else 0
        )
        for name, case in CASES.items()
        if name in ("cnn", "cnn_cifar", "lstm", "transformer")
    }
    return cases | {
        "depthwise": Measured(depthwise, (3, 32, 32), 64),
        "residual": Measured(residual, (3, 32, 32), 64),
        "encoder, 32 positions": Measured(partial(Encoder, 256), (32, 256), 32),
        "encoder, 128 positions": Measured(partial(Encoder, 256), (128, 256), 32),
        "site: cnn": Measured(partial(build, "cnn", "mnist", 0), (1, 28, 28), 256),
        "site: conv1d": Measured(partial(build, "conv1d", "signals", 0), (1, 40), 256),
        "site: char_lstm": Measured(
            partial(build, "char_lstm", "names", 0), (11,), 256, ids=20
        ),
    }


def measure(name: str, model: Measured, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the times of a model's steps by estimate and as measured, and why."""
    data, steps = model.data(), dict[str, Step]()
    layers: list[dict[str, Any]] = []
    for source in ("estimated", "measured"):
        torch.manual_seed(0)
        engine, step = private_step(model.make(), data, "hooks", norm_methods=source)
        step.run()
        steps[source] = step
        choices = [choice for choice in engine.explain() if choice.microseconds]
        layers = [_layer(choice, engine.module) for choice in choices]
    timings = time_in_turns(steps, seconds)
    measured = timings["measured"]
    return {
        "model": name,
        "batch": model.batch,
        "estimated_ms": timings["estimated"].milliseconds,
        "measured_ms": measured.milliseconds,
        "ratio": measured.ratio,
        "low": measured.low,
        "high": measured.high,
        "layers": layers,
    }


def kind_of(kind: str, layer: nn.Module) -> str:
    """Return the kind of a layer call, of a convolution with its kernel."""
    if not isinstance(layer, nn.Conv1d | nn.Conv2d):
        return kind
    kernel = "×".join(map(str, layer.kernel_size))
    return f"{kind} {kernel}" + (" depthwise" if layer.groups > 1 else "")


def _layer(choice: NormChoice, model: nn.Module) -> dict[str, Any]:
    microseconds = dict(choice.microseconds or {})
    return {
        "layer": choice.layer,
        "kind": kind_of(choice.kind, model.get_submodule(choice.layer)),
        "inputs": [list(shape[1:]) for shape in choice.input_shapes],
        "output": list(choice.output_shape[1:]),
        "estimated": next(iter(microseconds)),
        "taken": choice.gradient_method or choice.norm_method,
        "microseconds": microseconds,
    }


@contextmanager
def nothing_cached() -> Iterator[None]:
    """Keep the times of this process's engines in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        try:
            yield
        finally:
            del os.environ["XDG_CACHE_HOME"]


def main() -> None:
    """Measure, print, and write the results."""
    rows = []
    with nothing_cached():
        for name, model in models().items():
            row = measure(name, model)
            print(
                f"{name:24} {row['estimated_ms']:9.2f} ms, measured {row['ratio']:.3f} "
                f"({row['low']:.3f} to {row['high']:.3f}) of it",
                flush=True,
            )
            rows.append(row)
    print(record.write("norm_methods", {"rows": rows}))
