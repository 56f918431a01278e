"""The inputs of a model: the records of a data set, or fixed features of them."""

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

Tables = tuple[FeatureTable, FeatureTable]  # for training, for tests
SMALL_PIECE = 32  # rows computed between two checks whether to stop
WAIT_SECONDS = 0.2


class Rows(Protocol):
    """Anything that gives the rows at some indices: a tensor, a table of features."""

    def __getitem__(self, index: Tensor, /) -> Tensor:
        """Return rows: int64 [B] -> [B, ...]."""


@dataclass(frozen=True)
class Inputs:
    """A data set as a model sees it.

    Attributes:
        train: Rows to learn from; features are computed when a batch needs them.
        train_targets: [N] int64.
        test: [N_test, ...], all of it, for it is used again and again.
        test_targets: [N_test] int64.
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
    """Return a data set for a model; read once per process.

    Args:
        dataset: A key of the catalogue's data sets.
        model: A key of its models.
        cache_dir: Folder of features that processes share.
        on_progress: Called while features are computed, here and for the batches:
            rows done, of how many.

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
    everything = test_rows[torch.arange(len(test))]
    return Inputs(train_rows, train.targets, everything, test.targets)


def missing_pieces(dataset: str, model: str, cache_dir: Path) -> Iterator[None]:
    """Compute the features that are not on the disk yet, those for tests first.

    The data set is read first; then each piece takes a few milliseconds.  The last rows
    come first: a run that wants all of them begins with the first ones.
    """
    return _pieces(_tables(dataset, model, cache_dir))


def _pieces(tables: Tables) -> Iterator[None]:
    for table in reversed(tables):
        if table.present == len(table):
            continue
        for start in reversed(range(0, len(table), SMALL_PIECE)):
            table.complete(range(start, min(start + SMALL_PIECE, len(table))))
            yield


@contextmanager
def one_process(cache_dir: Path, stops: Callable[[], bool]) -> Iterator[bool]:
    """Wait until no other process holds the lock; False if ``stops`` came first."""
    cache_dir.mkdir(parents=True, exist_ok=True)
    with (cache_dir / "completing.lock").open("a") as lock:
        while not (is_alone := locks(lock)) and not stops():
            time.sleep(WAIT_SECONDS)
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
