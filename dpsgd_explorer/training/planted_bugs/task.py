"""The task of every loop: a model of four tables, 200 real records and 2,000 canaries.

Each canary has one column in each table that no other record uses, and a target far
from all predictions.  Its gradient therefore has a norm above the bound, one direction
for all weights, and is orthogonal to the gradients of other records.  This is the worst
case of the privacy analysis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from dpsgd_explorer.accounting import Plan

TABLES = 4
#: Number of columns of a table that the real records use.
COLUMNS = 5
#: Number of real training records, and of test records.
RECORDS = 200
CANARIES = 2000
#: Target of a canary, far from all predictions.
CANARY_TARGET = -1e6
#: Standard deviation of the noise on the real targets.
TARGET_NOISE = 0.1
#: Sample rate.
RATE = 0.1
#: Expected batch size, if half of the canaries join.
BATCH_SIZE = round(RATE * (RECORDS + CANARIES / 2))
STEPS = 60
EPSILON, DELTA = 4.0, 1e-5
MAX_GRAD_NORM = 2.0
LEARNING_RATE = 2.0


class Tables(nn.Module):
    """A linear model whose weights are in four tensors.

    Args:
        columns: Number of columns of each table.
    """

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.Linear(columns, 1, bias=False) for _ in range(TABLES)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Returns one prediction per record: [B, TABLES * columns] -> [B]."""
        parts = x.chunk(TABLES, dim=1)
        columns = [table(part) for table, part in zip(self.tables, parts, strict=True)]
        return torch.cat(columns, dim=1).sum(dim=1)

    def weights(self) -> Tensor:
        """Returns a copy of all weights, [TABLES, columns]."""
        tables = [cast(nn.Linear, table).weight.detach() for table in self.tables]
        return torch.cat(tables).clone()


@dataclass(frozen=True)
class Task:
    """Training and test records, and the settings of DP-SGD.

    Attributes:
        x: Training records, [N, TABLES * columns].
        y: Targets of the training records, [N].
        test_x: Test records, [RECORDS, TABLES * columns].
        test_y: Targets of the test records, [RECORDS].
        sample_rate: Probability that a record joins a batch.
        batch_size: Expected batch size, the divisor of the noisy sum.
        noise_multiplier: Standard deviation of the noise, divided by the clipping
            bound.
        max_grad_norm: Clipping bound.
        learning_rate: Learning rate of plain SGD.
        steps: Number of steps.
    """

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor
    sample_rate: float
    batch_size: int
    noise_multiplier: float
    max_grad_norm: float = MAX_GRAD_NORM
    learning_rate: float = LEARNING_RATE
    steps: int = STEPS

    @property
    def columns(self) -> int:
        """Number of columns of each table."""
        return self.x.shape[1] // TABLES

    def at_rate(self, learning_rate: float) -> Task:
        """Returns the task with another learning rate."""
        return replace(self, learning_rate=learning_rate)


class CanaryTask(NamedTuple):
    """A task, and the membership of each canary, bool [CANARIES]."""

    task: Task
    joined: np.typing.NDArray[np.bool_]


def plan() -> Plan:
    """Returns the plan whose ε every loop promises."""
    return Plan.create(
        sample_size=round(BATCH_SIZE / RATE),
        expected_batch_size=BATCH_SIZE,
        steps=STEPS,
        target_epsilon=EPSILON,
        delta=DELTA,
    )


def canary_task(seed: int, noise_multiplier: float) -> CanaryTask:
    """Returns the task; a fair coin decides whether a canary is a member.

    Args:
        seed: Seed of the records and the coins.
        noise_multiplier: Noise multiplier of ``plan()``.
    """
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(TABLES * COLUMNS, generator=generator)
    x, y = _real(direction, generator)
    test_x, test_y = _real(direction, generator)
    joined = torch.rand(CANARIES, generator=generator) < 0.5
    crafted = torch.eye(CANARIES)[joined]
    task = Task(
        x=torch.cat([_columns(x, CANARIES), _canaries(crafted)]),
        y=torch.cat([y, torch.full((len(crafted),), CANARY_TARGET)]),
        test_x=_columns(test_x, CANARIES),
        test_y=test_y,
        sample_rate=RATE,
        batch_size=BATCH_SIZE,
        noise_multiplier=noise_multiplier,
    )
    return CanaryTask(task, joined.numpy())


def _real(direction: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(RECORDS, TABLES * COLUMNS, generator=generator)
    x /= x.shape[1] ** 0.5
    noise = TARGET_NOISE * torch.randn(RECORDS, generator=generator)
    return x, x @ direction + noise


def _columns(x: Tensor, more: int) -> Tensor:
    """Returns real records with zero columns at the end of each table."""
    empty = torch.zeros(len(x), more)
    return torch.cat([y for part in x.chunk(TABLES, 1) for y in (part, empty)], dim=1)


def _canaries(crafted: Tensor) -> Tensor:
    """Returns canaries with zeros in the columns of the real records."""
    empty = torch.zeros(len(crafted), COLUMNS)
    return torch.cat([empty, crafted] * TABLES, dim=1)
