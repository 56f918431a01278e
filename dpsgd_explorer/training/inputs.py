"""What a model sees of a data set: the records, or fixed features of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from dpsgd_explorer.training import datasets
from dpsgd_explorer.training.features import FeatureTable, content_key
from dpsgd_explorer.training.models import TRANSFORMS


class Rows(Protocol):
    """Anything that gives the rows at some indices: a tensor, a table of features."""

    def __getitem__(self, index: Tensor, /) -> Tensor:
        """Return rows: int64 [B] -> float32 [B, ...]."""


@dataclass(frozen=True)
class Inputs:
    """A data set as a model sees it.

    Attributes:
        train: Rows to learn from; features are computed when a batch needs them.
        train_targets: [N] int64.
        test: [N_test, ...] float32, all of it, for it is used again and again.
        test_targets: [N_test] int64.
    """

    train: Rows
    train_targets: Tensor
    test: Tensor
    test_targets: Tensor


@cache
def load(dataset: str, model: str, cache_dir: Path | None) -> Inputs:
    """Return a data set for a model; prepared once a process.

    Raises:
        DataError: a data file is missing or damaged.
    """
    train, test = datasets.load(dataset)
    if model not in TRANSFORMS:
        return Inputs(train.inputs, train.targets, test.inputs, test.targets)
    train_rows, test_rows = (_table(part, model, cache_dir) for part in (train, test))
    everything = test_rows[torch.arange(len(test))]
    return Inputs(train_rows, train.targets, everything, test.targets)


def _table(
    records: datasets.Records, model: str, cache_dir: Path | None
) -> FeatureTable:
    transform = TRANSFORMS[model](tuple(records.inputs.shape[1:]))
    return FeatureTable(
        records.inputs,
        transform,
        width=transform.features,
        key=content_key(records.digest, transform.name),
        folder=cache_dir,
    )
