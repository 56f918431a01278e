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
        total = [torch.zeros_like(p) for p in parameters]
        for one in loss(model(x), y):
            gradient = torch.autograd.grad(one, parameters, retain_graph=True)
            norm = torch.cat([g.flatten() for g in gradient]).norm()
            for t, g in zip(total, gradient, strict=True):
                t += g * min(1.0, C / float(norm))
        for p, t in zip(parameters, total, strict=True):
            noise = task.noise_multiplier * C * torch.randn_like(p)
            mean = t / max(len(x), 1)
            p.data -= task.learning_rate * (mean + noise / task.batch_size)
        yield task.learning_rate  # a step is out
