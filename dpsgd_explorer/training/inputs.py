"""The inputs of a model: the records of a data set, or fixed features of records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from dpsgd_explorer.training.datasets import registry as datasets
from dpsgd_explorer.training.datasets.features import FeatureTable, content_key, locks
from dpsgd_explorer.training.models import TRANSFORMS

#: Features of the training records and of the test records.
Tables = tuple[FeatureTable, FeatureTable]
#: Number of rows computed ahead between two checks of the stop request.
AHEAD_ROWS = 32
#: Seconds between two attempts to lock the folder of features.
POLL_SECONDS = 0.2


class Rows(Protocol):
    """Rows by index: a tensor, or a table of features."""

    def __getitem__(self, index: Tensor, /) -> Tensor:
        """Returns rows: int64 [B] -> [B, ...]."""


@dataclass(frozen=True)
class Inputs:
    """A data set in the form that a model takes.

    Attributes:
        train: Training inputs; features are computed when a batch needs them.
        train_targets: Training targets, [N] int64; [N, T] for texts.
        test: Test inputs, [N_test, ...], computed once for all evaluations.
        test_targets: Test targets, [N_test] int64; [N_test, T] for texts.
    """

    train: Rows
    train_targets: Tensor
    test: Tensor
    test_targets: Tensor


def load(
    dataset: str,
    model: str,
    cache_dir: Path | None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Inputs:
    """Returns a data set for a model; files are read once per process.

    Args:
        dataset: A key of the catalogue's data sets.
        model: A key of the catalogue's models.
        cache_dir: Folder of features that processes share; None to store features in
            memory only.
        on_progress: Function of the number of computed rows and of all rows, called
            while features are computed, here and for batches.

    Raises:
        DataError: a data file is missing or damaged.
    """
    train, test = datasets.load(dataset)
    if model not in TRANSFORMS:
        return Inputs(train.inputs, train.targets, test.inputs, test.targets)
    tables = _tables(dataset, model, cache_dir)
    if on_progress is not None:
        _watch(tables, on_progress)
    train_rows, test_rows = tables
    test_inputs = test_rows[torch.arange(len(test))]
    return Inputs(train_rows, train.targets, test_inputs, test.targets)


def compute_missing(dataset: str, model: str, cache_dir: Path) -> Iterator[None]:
    """Computes the features that are not on the disk yet, a few rows per iteration.

    Test features are computed first.  The first iteration reads the data set; the
    others take a few milliseconds.  Rows are computed from the last to the first,
    because a run that needs all rows computes them from the first to the last.
    """
    return _compute_ahead(_tables(dataset, model, cache_dir))


def _compute_ahead(tables: Tables) -> Iterator[None]:
    for table in reversed(tables):
        if table.present == len(table):
            continue
        for start in reversed(range(0, len(table), AHEAD_ROWS)):
            table.complete(range(start, min(start + AHEAD_ROWS, len(table))))
            yield


@contextmanager
def one_process(cache_dir: Path, stops: Callable[[], bool]) -> Iterator[bool]:
    """Waits until no other process has locked the folder.

    Args:
        cache_dir: Folder of features.
        stops: Function that returns True to stop waiting.

    Yields:
        True if this process has the lock, False if ``stops`` returned True first.
    """
    cache_dir.mkdir(parents=True, exist_ok=True)
    with (cache_dir / "completing.lock").open("a") as lock:
        while not (is_alone := locks(lock)) and not stops():
            time.sleep(POLL_SECONDS)
        yield is_alone


def _watch(tables: Tables, on_progress: Callable[[int, int], None]) -> None:
    total = sum(len(table) for table in tables)

    def report() -> None:
        on_progress(sum(table.present for table in tables), total)

    for table in tables:
        table.on_progress = report


@cache
def _tables(dataset: str, model: str, cache_dir: Path | None) -> Tables:
    train, test = datasets.load(dataset)
    return _table(train, model, cache_dir), _table(test, model, cache_dir)


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
