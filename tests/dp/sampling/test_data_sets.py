"""Data sets of a loader: what is taken for records, and what is refused with advice."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
)

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.errors import ConfigError

SIZE = 20
X, Y = torch.arange(2.0 * SIZE).view(SIZE, 2), torch.arange(SIZE) % 2


class Table:
    """A table in the manner of Hugging Face's: no torch Dataset, items as dicts.

    Attributes:
        fetched: Numbers of items that were fetched at once.
    """

    def __init__(self):
        self.fetched = []

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return {"x": X[index].tolist(), "y": int(Y[index])}

    def __getitems__(self, indices):
        self.fetched.append(len(indices))
        return [self[index] for index in indices]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


class OwnLoader(DataLoader):
    """A loader with a length and items, as some libraries derive them."""

    def __getitem__(self, index):
        return index


def loader(dataset, **options):
    engine = PrivacyEngine(
        nn.Linear(2, 2), batch_size=5, sample_size=SIZE, epochs=1,
        noise_multiplier=1.0, noise="seeded", seed=4,
    )  # fmt: skip
    engine.attach(torch.optim.SGD(engine.module.parameters(), lr=0.1))
    return engine.poisson_loader(dataset, **options)


def drawn():
    """Return the records of the first batch, int64 [n]."""
    (numbers,) = next(iter(loader((torch.arange(SIZE),))))
    return numbers


PAIRS = list(zip(X, Y, strict=True))
ITEMS = {
    "pairs": PAIRS,
    "pairs of numbers": [(row.tolist(), int(y)) for row, y in PAIRS],
    "subset": Subset(PAIRS, range(SIZE)),
    "concatenated": ConcatDataset([PAIRS[:7], PAIRS[7:]]),
}


@pytest.mark.parametrize("dataset", ITEMS.values(), ids=ITEMS)
def test_a_list_is_a_data_set_of_items(dataset):
    x, y = next(iter(loader(dataset)))
    x = torch.stack(list(x), 1) if isinstance(x, list) else x
    assert torch.equal(x.float(), X[drawn()])
    assert torch.equal(y, Y[drawn()])


@pytest.mark.parametrize(
    "dataset", [[{"x": x, "y": y} for x, y in PAIRS], Table()], ids=["dicts", "table"]
)
def test_items_may_be_dicts(dataset):
    batch = next(iter(loader(dataset)))
    assert batch["y"].tolist() == Y[drawn()].tolist()


class Transformed(TensorDataset):
    """Tensors whose items are transformed."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return -x, y


def test_items_of_tensors_are_transformed_as_their_data_set_says():
    x, _ = next(iter(loader(Transformed(X, Y))))
    assert torch.equal(x, -X[drawn()])


def test_two_dicts_are_two_records():
    with pytest.raises(ConfigError, match="length, 2, got 20") as caught:
        loader([{"x": X[0]}, {"x": X[1]}])
    assert caught.value.field == "sample_size"


def test_items_are_fetched_at_once_if_the_data_set_can():
    table = Table()
    next(iter(loader(table)))
    assert table.fetched == [len(drawn())]


@pytest.mark.parametrize("kind", [DataLoader, OwnLoader])
def test_a_loader_in_place_of_its_data_set_is_named(kind):
    with pytest.raises(ConfigError, match=r"loader\.dataset, and collate=") as caught:
        loader(kind(PAIRS, batch_size=2))
    assert caught.value.field == "dataset"


@pytest.mark.parametrize(
    "stream", [Stream(), iter(PAIRS), (row for row in PAIRS), None, 3]
)
def test_a_stream_is_refused_with_the_reason(stream):
    with pytest.raises(ConfigError, match="length and items by index") as caught:
        loader(stream)
    assert caught.value.field == "dataset"
    assert type(stream).__name__ in str(caught.value)


@pytest.mark.parametrize(
    "columns",
    [(X.numpy(), Y.numpy()), {"x": X, "y": Y}, (X.tolist(), Y.tolist())],
    ids=["arrays", "dict", "lists"],
)
def test_columns_that_are_no_tuple_of_tensors_are_refused(columns):
    with pytest.raises(ConfigError, match="a tuple of tensors") as caught:
        loader(columns)
    assert caught.value.field == "dataset"


def test_a_list_of_columns_is_told_to_be_a_tuple():
    with pytest.raises(ConfigError, match="columns as a tuple of tensors"):
        loader([X, Y])


@pytest.mark.parametrize("steps", [0, -1, 2.5, "3", True])
def test_a_number_of_steps_that_is_none_is_refused(steps):
    with pytest.raises(ConfigError, match="steps must be") as caught:
        loader(PAIRS, steps=steps)
    assert caught.value.field == "steps"


class Mapped(Dataset):
    """Rows of a file, read when they are asked for."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.from_numpy(self.rows[index].copy()), torch.zeros(1)


def resident_mib():
    """Return the memory that this process holds, files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.parametrize("as_tensors", [False, True])
def test_ten_million_rows_in_a_file_are_not_copied(tmp_path, as_tensors):
    """1.2 GiB in a sparse file; a batch touches a thousand rows of it."""
    size = 10**7
    rows = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(size, 32))
    data = Mapped(rows)
    if as_tensors:
        data = torch.from_numpy(rows), torch.zeros(1).expand(size, 1)
    engine = PrivacyEngine(
        nn.Linear(32, 1),
        batch_size=1000,
        sample_size=size,
        steps=2,
        noise_multiplier=1.0,
    )
    engine.attach(torch.optim.SGD(engine.module.parameters(), lr=0.1))
    before = resident_mib()
    inputs, _ = next(iter(engine.poisson_loader(data)))
    assert 800 < len(inputs) < 1200
    assert resident_mib() - before < 400
