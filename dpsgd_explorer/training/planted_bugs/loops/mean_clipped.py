"""DP-SGD in plain PyTorch."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from dpsgd_explorer.training.planted_bugs.task import Tables, Task


def build(task: Task) -> nn.Module:
    return Tables(task.columns)


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * (outputs - targets) ** 2  # one number for each record


def batches(task: Task) -> Iterator[tuple[Tensor, Tensor]]:
    for _ in range(task.steps):
        drawn = torch.rand(len(task.x)) < task.sample_rate
        yield task.x[drawn], task.y[drawn]


def train(model: nn.Module, task: Task) -> Iterator[float]:
    parameters, C = list(model.parameters()), task.max_grad_norm
    for x, y in batches(task):
        mean = loss(model(x), y).mean()
        gradient = torch.autograd.grad(mean, parameters)
        norm = torch.cat([g.flatten() for g in gradient]).norm()
        for p, g in zip(parameters, gradient, strict=True):
            clipped = g * min(1.0, C / float(norm))
            noise = task.noise_multiplier * C * torch.randn_like(p)
            p.data -= task.learning_rate * (clipped + noise / task.batch_size)
        yield task.learning_rate  # a step is out
