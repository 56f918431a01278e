"""The microscope: per-sample gradients of one step, as points in a plane, and norms.

One axis of the plane is the direction of the clipped sum.  The other axis is the
direction in which the gradients vary most around the first.  Values of single records
have no noise, so they are not private.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from dpsgd_explorer.dp import per_sample_gradients
from dpsgd_explorer.experiments.training_config import TrainingConfig

#: Maximum number of records whose gradients are shown in the plane.
MAX_POINTS = 100
#: Maximum number of gradient norms in the event.
MAX_NORMS = 400
#: Maximum number of entries of all stored per-sample gradients: 240 MB in float64.
MAX_ENTRIES = 3e7
#: Significant digits of the numbers in the event.
DIGITS = 4


class Microscope:
    """Measures the gradients of one step, without changing the step.

    Args:
        model: The model before the step.
        optimizer: The optimizer; when it steps, gradients are the noisy means.
        config: Settings of the run at this step.
        step: Number of steps done.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        config: TrainingConfig,
        step: int = 0,
    ) -> None:
        self._step = step
        self._model, self._optimizer, self._config = model, optimizer, config
        self._noisy: Tensor | None = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Records the gradient of the optimizer's step within the context."""

        def record(*_: object) -> None:
            gradients = [p.grad for p in self._model.parameters()]
            flat = [g.flatten() for g in gradients if g is not None]
            self._noisy = torch.cat(flat).double().cpu()

        handle = self._optimizer.register_step_pre_hook(record)
        try:
            yield
        finally:
            handle.remove()

    def gradients(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Returns the first records' gradients as rows, on the CPU: [n, parameters].

        Call it before the step.  Shapes: inputs [B, ...], targets [B],
        or [B, T] for texts.
        """
        trained = [p for p in self._model.parameters() if p.requires_grad]
        parameters = sum(p.numel() for p in trained)
        count = max(2, min(MAX_POINTS, int(MAX_ENTRIES / parameters)))
        model = copy.deepcopy(self._model)
        by_parameter = per_sample_gradients(
            model, F.cross_entropy, inputs[:count], targets[:count]
        )
        flat = [gradients.flatten(1) for gradients in by_parameter.values()]
        return torch.cat(flat, dim=1).double().cpu()

    def data(self, gradients: Tensor, norms: Tensor | None) -> dict[str, Any]:
        """Returns the data of the ``microscope`` event; call it after the step.

        Args:
            gradients: Gradients of some of the drawn records, [n, parameters].
            norms: Gradient norms of all drawn records, [B]; None to compute them from
                ``gradients``.
        """
        config, plan = self._config, self._config.plan
        batch_size: float = config.expected_batch_size
        if plan.slots is not None:
            batch_size = plan.mean_batch_size
        bound = config.max_grad_norm if config.private else math.inf
        norms = gradients.norm(dim=1) if norms is None else norms.double().cpu()
        norms = norms[norms.isfinite()].sort(descending=True).values
        factors = _factors(gradients, bound)  # [n]
        clipped = gradients * factors[:, None]
        plane = _plane(gradients, clipped.sum(dim=0))  # [2, parameters]
        mean = clipped.mean(dim=0) if len(clipped) else clipped.sum(dim=0)
        arrows = {"clipped": mean}
        if len(gradients):
            arrows["true"] = gradients.mean(dim=0)
        if self._noisy is not None:
            arrows["noisy"] = self._noisy
        std = plan.noise_multiplier * config.max_grad_norm if config.private else 0.0
        if (strategy := plan.noise_correlation) is not None:
            weights = strategy.noise_weights()[: self._step + 1]
            std *= strategy.column_norm * float((weights**2).sum()) ** 0.5
        return {
            "records": len(norms),
            "shown": len(gradients),
            "parameters": gradients.shape[1],
            "expected_batch_size": batch_size,
            "max_grad_norm": config.max_grad_norm if config.private else None,
            "cut": int((norms > bound).sum()),
            "lengths": _numbers(_thinned(norms)),
            "points": [_numbers(row) for row in gradients @ plane.T],
            "factors": _numbers(factors),
            "arrows": {name: _numbers(plane @ v) for name, v in arrows.items()},
            "noise_length": _number(std * math.sqrt(gradients.shape[1]) / batch_size),
            "noisy_length": (
                None if self._noisy is None else _number(float(self._noisy.norm()))
            ),
        }


def _factors(gradients: Tensor, bound: float) -> Tensor:
    """Returns the clipping factors min(1, bound / norm), [n]."""
    norms: Tensor = gradients.norm(dim=1)
    return torch.clamp(bound / norms, max=1.0).nan_to_num(1.0)


def _plane(gradients: Tensor, total: Tensor) -> Tensor:
    """Returns the plane's two orthonormal axes, [2, parameters]."""
    plane = torch.zeros(2, gradients.shape[1], dtype=torch.float64)
    if not len(gradients):
        return plane
    plane[0] = F.normalize(total, dim=0)
    rest = gradients - (gradients @ plane[0])[:, None] * plane[0]
    _, vectors = torch.linalg.eigh(rest @ rest.T)  # [n, n]
    plane[1] = F.normalize(vectors[:, -1] @ rest, dim=0)
    return plane


def _thinned(norms: Tensor) -> Tensor:
    """Returns at most MAX_NORMS of sorted norms, evenly spaced, with both ends."""
    if len(norms) <= MAX_NORMS:
        return norms
    indices = torch.linspace(0, len(norms) - 1, MAX_NORMS).round().long()
    return norms[indices]


def _numbers(values: Tensor) -> list[float]:
    return [_number(float(value)) for value in values]


def _number(value: float) -> float:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else 0.0
