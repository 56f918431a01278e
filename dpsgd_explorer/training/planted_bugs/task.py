"""What every loop trains: a model of four tables, a few real records, many canaries.

A canary has a column of its own in each table and a target far off, so that its
gradient is longer than any bound, has one direction whatever the weights are, and meets
no other record's: the worst record there is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from dpsgd_explorer.accounting import Plan

TABLES = 4
COLUMNS = 5  # of a table, used by the real records
RECORDS = 200  # real ones, and the number of test records
CANARIES = 2000
FAR_OFF = -1e6  # a canary's target
NOISE = 0.1  # of the real targets
#: Expected size of a batch; half the canaries join.
RATE = 0.1
BATCH_SIZE = round(RATE * (RECORDS + CANARIES / 2))
STEPS = 60
EPSILON, DELTA = 4.0, 1e-5
MAX_GRAD_NORM = 2.0
LEARNING_RATE = 2.0


class Tables(nn.Module):
    """A linear model whose columns are shared out among four tensors of weights.

    Args:
        columns: Columns of each table.
    """

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.Linear(columns, 1, bias=False) for _ in range(TABLES)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return one number for each record, [B]; ``x`` is [B, TABLES * columns]."""
        parts = x.chunk(TABLES, dim=1)
        columns = [table(part) for table, part in zip(self.tables, parts, strict=True)]
        return torch.cat(columns, dim=1).sum(dim=1)

    def weights(self) -> Tensor:
        """Return a copy of all weights, [TABLES, columns]."""
        tables = [cast(nn.Linear, table).weight.detach() for table in self.tables]
        return torch.cat(tables).clone()


@dataclass(frozen=True)
class Task:
    """Records to learn from and the settings of DP-SGD.

    Attributes:
        x: Records, [N, TABLES * columns].
        y: Their targets, [N].
        test_x: Other records, [RECORDS, TABLES * columns].
        test_y: Their targets, [RECORDS].
        sample_rate: Probability that a record joins a batch.
        batch_size: Expected size of a batch, the divisor of the noisy sum.
        noise_multiplier: Noise std over the clipping bound.
        max_grad_norm: Clipping bound.
        learning_rate: Learning rate of plain SGD.
        steps: Length of the run.
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
        """Columns of a table."""
        return self.x.shape[1] // TABLES

    def at_rate(self, learning_rate: float) -> Task:
        """Return the task with another learning rate."""
        return replace(self, learning_rate=learning_rate)


class CanaryTask(NamedTuple):
    """A task, and which canaries are among its records, bool [CANARIES]."""

    task: Task
    joined: np.typing.NDArray[np.bool_]


def plan() -> Plan:
    """Return the promise that every loop makes."""
    return Plan.create(
        sample_size=round(BATCH_SIZE / RATE),
        expected_batch_size=BATCH_SIZE,
        steps=STEPS,
        target_epsilon=EPSILON,
        delta=DELTA,
    )


def canary_task(seed: int, noise_multiplier: float) -> CanaryTask:
    """Return the task with the canaries that join it by fair coins.

    Args:
        seed: Seed of the records and the coins.
        noise_multiplier: That of ``plan()``.
    """
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(TABLES * COLUMNS, generator=generator)
    x, y = _real(direction, generator)
    test_x, test_y = _real(direction, generator)
    joined = torch.rand(CANARIES, generator=generator) < 0.5
    crafted = torch.eye(CANARIES)[joined]
    task = Task(
        x=torch.cat([_columns(x, CANARIES), _canaries(crafted)]),
        y=torch.cat([y, torch.full((len(crafted),), FAR_OFF)]),
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
    return x, x @ direction + NOISE * torch.randn(RECORDS, generator=generator)


def _columns(x: Tensor, more: int) -> Tensor:
    """Return real records with empty columns at the end of each table."""
    empty = torch.zeros(len(x), more)
    return torch.cat([y for part in x.chunk(TABLES, 1) for y in (part, empty)], dim=1)


def _canaries(crafted: Tensor) -> Tensor:
    """Return canaries with empty columns where the real records have theirs."""
    empty = torch.zeros(len(crafted), COLUMNS)
    return torch.cat([empty, crafted] * TABLES, dim=1)
