"""The data sets as tensors: one table, one file a data set.

``catalogue`` holds sizes and shapes; a test compares them with these data sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock

from torch import Tensor

from dpsgd_explorer.experiments.data_files.files import DataFile
from dpsgd_explorer.experiments.own_table import OwnTable
from dpsgd_explorer.training.datasets import (
    adult,
    fashion_mnist,
    housing,
    mnist,
    names,
    own,
    signals,
)


@dataclass(frozen=True)
class Records:
    """One part of a data set.

    Attributes:
        inputs: [N, ...] float32, or int64 characters.
        targets: [N] int64.
        digest: sha256 of the file that the inputs were read from.
    """

    inputs: Tensor
    targets: Tensor
    digest: str

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Loader:
    """How a data set is read, and the two files that its inputs come from.

    Attributes:
        feature_names: Returns a name for each column of a table, else nothing.
        groups: Attributes of a table by whose values errors are counted.
    """

    load: Callable[[], tuple[Tensor, Tensor, Tensor, Tensor]]
    train: DataFile
    test: DataFile
    feature_names: Callable[[], tuple[str, ...]] = tuple
    groups: tuple[str, ...] = ()


LOADERS: dict[str, Loader] = {
    "mnist": Loader(mnist.load, mnist.TRAIN_IMAGES, mnist.TEST_IMAGES),
    "fashion_mnist": Loader(
        fashion_mnist.load, fashion_mnist.TRAIN_IMAGES, fashion_mnist.TEST_IMAGES
    ),
    "adult": Loader(
        adult.load,
        adult.TRAIN,
        adult.TEST,
        feature_names=adult.feature_names,
        groups=("sex", "race"),
    ),
    "housing": Loader(
        housing.load, housing.FILE, housing.FILE, feature_names=housing.feature_names
    ),
    "signals": Loader(signals.load, signals.FILE, signals.FILE),
    "names": Loader(names.load, names.MALE, names.FEMALE),
}
_reading = {name: Lock() for name in LOADERS}


def register(table: OwnTable, read: own.ReadTable | None) -> None:
    """Make a visitor's own table a data set of this process.

    Args:
        table: Its schema.
        read: Returns its file by name; None: it is in the present folder.
    """
    file = DataFile(f"{table.name}.csv", table.sha256)
    _reading.setdefault(table.name, Lock())
    LOADERS[table.name] = Loader(
        lambda: own.load(table, read or own.present_folder),
        file,
        file,
        feature_names=lambda: table.feature_names,
    )


def load(name: str) -> tuple[Records, Records]:
    """Return the training and the test records; read once a process, by one thread.

    Raises:
        DataError: a file is missing or damaged.
    """
    with _reading[name]:
        return _read(name)


@cache
def _read(name: str) -> tuple[Records, Records]:
    loader = LOADERS[name]
    inputs, targets, test_inputs, test_targets = loader.load()
    return (
        Records(inputs, targets, loader.train.sha256),
        Records(test_inputs, test_targets, loader.test.sha256),
    )
