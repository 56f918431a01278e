"""The registry of data sets; each file of this folder loads one data set as tensors.

``experiments.catalogue`` contains sizes and shapes; a test compares them with these
data sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock

from torch import Tensor

from dpsgd_explorer.experiments import own_csv
from dpsgd_explorer.experiments.data_files.files import DataFile
from dpsgd_explorer.experiments.own_table import OwnTable
from dpsgd_explorer.training.datasets import (
    adult,
    fashion_mnist,
    housing,
    mnist,
    names,
    own,
    sentences,
    signals,
)


@dataclass(frozen=True)
class Records:
    """The training records or the test records of a data set.

    Attributes:
        inputs: Inputs, [N, ...] float32, or int64 for characters.
        targets: Targets, [N] int64; [N, T] for texts, one per position.
        digest: sha256 of the inputs' file.
    """

    inputs: Tensor
    targets: Tensor
    digest: str

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Loader:
    """The functions and files of a data set.

    Attributes:
        load: Function that returns training inputs and targets, then test inputs and
            targets.
        train: File of the training inputs.
        test: File of the test inputs.
        feature_names: Function that returns the name of each column of a table; empty
            for other data sets.
        groups: Attributes of a table; errors are counted for each of their values.
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
    "sentences": Loader(sentences.load, adult.TRAIN, adult.TEST),
}
_reading = {name: Lock() for name in LOADERS}


def register(table: OwnTable, read: own_csv.ReadTable | None) -> None:
    """Registers a visitor's table as a data set of this process.

    Args:
        table: Schema of the table.
        read: Function that returns the file of a table by name; None to read it from
            the current folder.
    """
    file = DataFile(f"{table.name}.csv", table.sha256)
    _reading.setdefault(table.name, Lock())
    LOADERS[table.name] = Loader(
        lambda: own.load(table, read or own_csv.from_current_folder),
        file,
        file,
        feature_names=lambda: table.feature_names,
    )


def load(name: str) -> tuple[Records, Records]:
    """Returns the training and the test records, which are read once per process.

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
