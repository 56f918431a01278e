"""Records by index: the functions that fetch the records of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from dpsgd_explorer.errors import ConfigError, PrivacyError

Collate = Callable[[list[Any]], Any]
Fetch = Callable[[Tensor], Any]


class MapStyle(Protocol):
    """A data set with a length and items by index, such as a list."""

    def __len__(self) -> int:
        """Returns the number of items."""

    def __getitem__(self, index: Any, /) -> Any:
        """Returns one item."""


#: Data set of a loader: a tuple of tensors with one row per record, or items by index.
Records = Dataset[Any] | tuple[Tensor, ...] | MapStyle


def fetcher(dataset: Records, collate: Collate) -> tuple[Fetch, int]:
    """Returns the function that fetches records by index, and the number of records.

    Raises:
        ConfigError: records cannot be fetched by index, the data set of items is empty,
            or its columns have different lengths.
    """
    _check_kind(dataset)
    columns = columns_of(dataset)
    if not columns:
        items: Any = dataset
        if not len(items):
            raise ConfigError(
                "dataset",
                "dataset must have at least one record, got none. Without records, "
                "pass tensors [0, ...], whose shapes define an empty batch.",
            )
        return partial(_items_at, items, collate), len(items)
    sizes = {len(column) for column in columns}
    if len(sizes) != 1:
        raise ConfigError(
            "dataset",
            f"dataset must have columns of equal length, got lengths {sorted(sizes)}.",
        )
    (size,) = sizes
    return partial(_rows_at, columns), size


def _check_kind(dataset: Any) -> None:
    """Raises ConfigError for a data set that is not supported.

    Supported are data sets with a length and items by index, and tuples of tensors.
    """
    kind = type(dataset).__name__
    if isinstance(dataset, DataLoader):
        raise ConfigError(
            "dataset",
            f"dataset must be a data set, got a {kind}, which draws its own batches. "
            "Pass loader.dataset, and collate=loader.collate_fn.",
        )
    by_index = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if isinstance(dataset, IterableDataset) or not by_index:
        raise ConfigError(
            "dataset",
            "dataset must have a length and items by index, because Poisson sampling "
            f"draws each record separately, got {kind}, a stream. Read the records "
            "into a list or tensors first. If each process has other records, use "
            "partition='local'.",
        )
    columns = isinstance(dataset, Mapping) or (
        isinstance(dataset, tuple) and not all(isinstance(x, Tensor) for x in dataset)
    )
    if columns:
        raise ConfigError(
            "dataset",
            "dataset must be a tuple of tensors with one row per record, or have one "
            f"item per record, got a {kind} of "
            f"{', '.join(sorted({type(x).__name__ for x in _entries(dataset)}))}. "
            "Convert the columns to tensors, or pass a list of items.",
        )


def _entries(dataset: Any) -> Iterable[Any]:
    return dataset.values() if isinstance(dataset, Mapping) else dataset


def explained(error: ConfigError, dataset: Any) -> ConfigError:
    """Returns the error; for a list of tensors, with a hint on passing columns."""
    are_tensors = isinstance(dataset, list) and all(
        isinstance(entry, Tensor) for entry in dataset
    )
    if not are_tensors:
        return error
    return ConfigError(
        error.field,
        f"{error} A list is treated as a data set of items; pass columns as a tuple of "
        "tensors.",
    )


def columns_of(dataset: Records) -> tuple[Tensor, ...]:
    """Returns the tensors of a data set that consists of tensors, else ()."""
    if isinstance(dataset, TensorDataset):
        # A subclass may transform items, so its tensors cannot be read directly.
        is_plain = type(dataset).__getitem__ is TensorDataset.__getitem__
        return dataset.tensors if is_plain else ()
    return dataset if isinstance(dataset, tuple) else ()


def _rows_at(columns: tuple[Tensor, ...], indices: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.index_select(0, _on_device_of(t, indices)) for t in columns)


def _on_device_of(values: Tensor, indices: Tensor) -> Tensor:
    """Returns the indices on the device of the values, without synchronization."""
    if values.is_cuda:
        return indices.pin_memory().to(values.device, non_blocking=True)
    return indices.to(values.device)


def _items_at(dataset: Any, collate: Collate, indices: Tensor) -> Any:
    if len(indices):
        # Torch's loader too fetches all items by one call where the data set can.
        fetch_all = getattr(dataset, "__getitems__", None)
        numbers = indices.tolist()
        items = fetch_all(numbers) if fetch_all else [dataset[i] for i in numbers]
        return collate(items)
    # Collating one item and removing its row gives an empty batch its shapes.
    return tree_map(_no_rows, collate([dataset[0]]))


def _no_rows(leaf: Any) -> Tensor:
    if not isinstance(leaf, Tensor):
        raise PrivacyError(
            "a batch must contain only tensors, because an empty batch is built from "
            f"them, got {type(leaf).__name__}. Pass a collate function to "
            "poisson_loader."
        )
    return leaf[:0]
