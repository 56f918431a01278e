"""One step of a run under the microscope: its gradients in a plane, and their lengths.

The plane holds the sum of the clipped gradients and the direction in which the others
differ most from it.  What is shown of single records has no noise: it is not private.
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

MOST_POINTS = 100  # records whose gradients are shown in the plane
MOST_LENGTHS = 400  # lengths of the drawn records, longest first
MOST_NUMBERS = 3e7  # entries of the gradients that are held at once
DIGITS = 4


class Microscope:
    """Looks at one step; the step itself is not changed.

    Args:
        model: Its parameters are those before the step.
        optimizer: At its step the gradient of each parameter is the noisy mean.
        config: Settings of the run, as they are at this step.
    """

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, config: TrainingConfig
    ) -> None:
        self._model, self._optimizer, self._config = model, optimizer, config
        self._noisy: Tensor | None = None

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Keep the gradient that the optimizer steps along within the context."""

        def keep(*_: object) -> None:
            gradients = [p.grad for p in self._model.parameters()]
            flat = [each.flatten() for each in gradients if each is not None]
            self._noisy = torch.cat(flat).double()

        handle = self._optimizer.register_step_pre_hook(keep)
        try:
            yield
        finally:
            handle.remove()

    def gradients(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return gradients of some records as rows, [n, parameters].

        Shapes: inputs [B, ...], targets [B].  Call it before the step.
        """
        parameters = sum(p.numel() for p in self._model.parameters())
        most = max(2, min(MOST_POINTS, int(MOST_NUMBERS / parameters)))
        model = copy.deepcopy(self._model)
        found = per_sample_gradients(
            model, F.cross_entropy, inputs[:most], targets[:most]
        )
        return torch.cat([rows.flatten(1) for rows in found.values()], dim=1).double()

    def shown(self, gradients: Tensor, lengths: Tensor | None) -> dict[str, Any]:
        """Return what the page draws, as JSON values; call it after the step.

        Args:
            gradients: Of some of the drawn records, [n, parameters].
            lengths: Of the gradients of all drawn records, [B]; None: those of the
                gradients given.
        """
        config, plan = self._config, self._config.plan
        bound = config.max_grad_norm if config.private else math.inf
        everyone = gradients.norm(dim=1) if lengths is None else lengths.double()
        everyone = everyone[everyone.isfinite()].sort(descending=True).values
        factors = _factors(gradients, bound)  # [n]
        clipped = gradients * factors[:, None]
        plane = _plane(gradients, clipped.sum(dim=0))  # [2, parameters]
        mean = clipped.mean(dim=0) if len(clipped) else clipped.sum(dim=0)
        arrows = {"clipped": mean}
        if len(gradients):
            arrows["true"] = gradients.mean(dim=0)
        if self._noisy is not None:
            arrows["noisy"] = self._noisy
        spread = plan.noise_multiplier * config.max_grad_norm if config.private else 0.0
        return {
            "records": len(everyone),
            "shown": len(gradients),
            "parameters": gradients.shape[1],
            "expected_batch_size": config.expected_batch_size,
            "max_grad_norm": config.max_grad_norm if config.private else None,
            "cut": int((everyone > bound).sum()),
            "lengths": _numbers(_thinned(everyone)),
            "points": [_numbers(row) for row in gradients @ plane.T],
            "factors": _numbers(factors),
            "arrows": {name: _numbers(plane @ each) for name, each in arrows.items()},
            "noise_length": _number(
                spread * math.sqrt(gradients.shape[1]) / config.expected_batch_size
            ),
            "noisy_length": (
                None if self._noisy is None else _number(float(self._noisy.norm()))
            ),
        }


def _factors(gradients: Tensor, bound: float) -> Tensor:
    lengths: Tensor = gradients.norm(dim=1)
    return torch.clamp(bound / lengths, max=1.0).nan_to_num(1.0)


def _plane(gradients: Tensor, total: Tensor) -> Tensor:
    """Return two orthonormal directions, [2, parameters]."""
    plane = torch.zeros(2, gradients.shape[1], dtype=torch.float64)
    if not len(gradients):
        return plane
    plane[0] = F.normalize(total, dim=0)
    rest = gradients - (gradients @ plane[0])[:, None] * plane[0]
    _, vectors = torch.linalg.eigh(rest @ rest.T)  # [n, n]
    plane[1] = F.normalize(vectors[:, -1] @ rest, dim=0)
    return plane


def _thinned(lengths: Tensor) -> Tensor:
    """Return at most MOST_LENGTHS of sorted lengths, the ends among them."""
    if len(lengths) <= MOST_LENGTHS:
        return lengths
    places = torch.linspace(0, len(lengths) - 1, MOST_LENGTHS).round().long()
    return lengths[places]


def _numbers(values: Tensor) -> list[float]:
    return [_number(float(value)) for value in values]


def _number(value: float) -> float:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else 0.0
