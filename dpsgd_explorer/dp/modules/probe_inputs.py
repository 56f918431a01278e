"""Random batches with the shapes, dtypes and ranges of ids of a real batch.

Only shapes and dtypes of the real tensors are used.  An input without one row per
sample, such as a flag or a mask for all samples, is passed on unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import (
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_unflatten,
)

from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.errors import UnsupportedModuleError

#: Number of rows of every random batch.  With three rows, two batches can differ in two
#: rows and share the third.
SAMPLES = 3

#: Seed of all random batches, so that all checks of a model use equal rows.
SEED = 20_160_701
#: Kinds of floating-point targets: in (0, 1), which every loss takes; 0 or 1; signed.
NUMBER_KINDS = ("share", "binary", "signed")
#: Default ``ignore_index`` of torch's losses.
IGNORE_INDEX = -100

Shape = tuple[int, ...]


def random_call(
    module: nn.Module,
    call: Any,
    size: int,
    seed: int,
    scale: float = 1.0,
    classes: Mapping[int, int] | None = None,
) -> Any:
    """Returns ``call`` with SAMPLES random rows.

    Args:
        module: The model.  Ids are below the size of its smallest embedding table.
        call: Tree of inputs.
        size: Number of samples of ``call``.
        seed: Seed of the random rows.
        scale: Standard deviation of floating-point entries.
        classes: {index of a leaf: number of classes} of the labels among the inputs.
    """
    generator = torch.Generator().manual_seed(seed)
    ids = smallest_table(module)
    per_sample = [leaf for leaf in tree_leaves(call) if has_rows(leaf, size)]
    steps = min((leaf.shape[1] for leaf in per_sample if leaf.dim() > 1), default=0)
    labels = classes or {}
    masks = _masks(call)

    def draw(shape: tuple[int, ...], like: Tensor, index: int) -> Tensor:
        if like.is_floating_point():
            return torch.randn(shape, generator=generator) * scale
        if like.dtype == torch.bool:
            return _random_mask(shape, seed, generator)
        if index in masks:
            return _prefix_mask(shape, seed).to(like.dtype)
        if index in labels:
            return torch.randint(0, labels[index], shape, generator=generator)
        if len(shape) == 1 and steps:  # may be lengths of sequences, which are above 0
            return torch.randint(1, 1 + min(ids, steps), shape, generator=generator)
        return torch.randint(0, ids, shape, generator=generator)

    return _with_rows(call, size, draw)


def smallest_table(module: nn.Module) -> int:
    """Returns the size of the smallest embedding table; 2 without a table."""
    tables = nn.Embedding | nn.EmbeddingBag
    sizes = [m.num_embeddings for m in module.modules() if isinstance(m, tables)]
    return min(sizes, default=2)


def _masks(call: Any) -> set[int]:
    """Returns the indices of the integer leaves whose names end with "mask".

    A mask is drawn as 0 and 1.  A module may compute positions from the sum of a mask,
    which no table would have room for if a mask were drawn as ids.
    """
    entries, _ = tree_flatten_with_path(call)
    return {
        index
        for index, (path, leaf) in enumerate(entries)
        if isinstance(leaf, Tensor)
        and _is_integer(leaf)
        and keystr(path).rstrip("']").endswith("mask")
    }


def _prefix_mask(shape: Shape, seed: int) -> Tensor:
    """Returns a mask with ones at the first positions, another count in each row."""
    length = max(1, shape[-1]) if len(shape) > 1 else 1
    counts = 1 + (torch.arange(shape[0]) + seed) % length
    rows = torch.arange(length) < counts.view(-1, *[1] * (len(shape) - 1))
    return rows.expand(shape) if len(shape) > 1 else rows.flatten()


def _random_mask(shape: Shape, seed: int, generator: torch.Generator) -> Tensor:
    """Returns a mask with both values in each row, and another count in each row.

    The meaning of True is unknown, so neither value may fill a row.
    """
    if len(shape) == 1:
        return torch.arange(shape[0]) % 2 == seed % 2
    whole = (*shape[:1], math.prod(shape[1:])) if shape[-1] == 1 else shape
    length = whole[-1]
    order = torch.rand(whole, generator=generator).argsort(-1)
    counts = 1 + (torch.arange(shape[0]) + seed) % max(1, length - 1)
    return (order < counts.view(-1, *[1] * (len(whole) - 1))).reshape(shape)


def random_targets(
    targets: Any, size: int, outputs: Any, draw_number: int = 0, numbers: str = "share"
) -> Any:
    """Returns SAMPLES random targets: class labels, masks or floating-point numbers.

    Args:
        targets: An example; only shapes and dtypes are used.
        size: Number of samples of ``targets``.
        outputs: Outputs of the module for SAMPLES rows, whose shape gives the number of
            classes.
        draw_number: Index of the draw.  Labels continue from the draw before, through
            all classes.
        numbers: A kind of NUMBER_KINDS.
    """
    generator = torch.Generator().manual_seed(SEED + draw_number)

    def draw(shape: tuple[int, ...], like: Tensor, index: int) -> Tensor:
        if like.is_floating_point():
            return _random_numbers(shape, numbers, draw_number, generator)
        if like.dtype == torch.bool:
            return _random_mask(shape, draw_number, generator)
        count = math.prod(shape)
        order = torch.randperm(count, generator=generator) + draw_number * count
        return (order % _classes(shape, outputs)).view(shape)

    return _with_rows(targets, size, draw)


def _random_numbers(
    shape: Shape, kind: str, draw_number: int, generator: torch.Generator
) -> Tensor:
    """Returns numbers of a kind; digits and signs change from each draw to the next."""
    shares = torch.rand(shape, generator=generator)
    if kind == "share":
        return shares
    row, column = torch.arange(shape[0]), torch.arange(math.prod(shape[1:]))
    digits = ((row[:, None] + column + draw_number) % 2).view(shape)
    return digits.float() if kind == "binary" else (0.1 + shares) * (2 * digits - 1)


def draws_of_all_classes(targets: Any, size: int, outputs: Any) -> int:
    """Returns the number of draws of ``random_targets`` that covers all classes."""
    needed = [1]
    for leaf in tensors_of(targets):
        if has_rows(leaf, size) and _is_integer(leaf):
            shape = (SAMPLES, *leaf.shape[1:])
            needed.append(-(-_classes(shape, outputs) // max(1, math.prod(shape))))
    return max(needed)


def _classes(shape: Shape, outputs: Any) -> int:
    """Returns the number of classes: the output dimension that labels do not have.

    Without such a dimension, it returns the shortest length above 1 after the dimension
    of samples, which is valid for every loss.
    """
    first = tuple(next(leaf.shape for leaf in tensors_of(outputs)))
    dims = range(1, len(first))
    fitting = [first[d] for d in dims if first[:d] + first[d + 1 :] == shape]
    lengths = fitting or [length for length in first[1:] if length > 1]
    return min((length for length in lengths if length > 1), default=2)


def with_ignored(tree: Any, indices: Container[int] | None = None) -> Any:
    """Returns the tree with i labels set to IGNORE_INDEX in row i, but not a whole row.

    If there is one label per sample, the label of the second row is ignored.

    Args:
        tree: Labels, or a tree with labels among its leaves.
        indices: Indices of the leaves that are labels; if None, all integer leaves.
    """
    leaves, spec = tree_flatten(tree)
    for index, leaf in enumerate(leaves):
        is_label = indices is None or index in indices
        if is_label and has_rows(leaf, SAMPLES) and _is_integer(leaf):
            leaves[index] = _some_ignored(leaf)
    return tree_unflatten(leaves, spec)


def _some_ignored(labels: Tensor) -> Tensor:
    labels = labels.clone()
    flat = labels.view(SAMPLES, -1)
    width = flat.shape[1]
    if width < 2:
        flat[1] = IGNORE_INDEX
    for row in range(SAMPLES):
        flat[row, : min(row, width - 1)] = IGNORE_INDEX
    return labels


def _is_integer(leaf: Tensor) -> bool:
    return leaf.dtype in (torch.int16, torch.int32, torch.int64)


def random_slopes(outputs: Any) -> list[Tensor]:
    """Returns a random factor for each entry of the outputs, for ``linear_loss``.

    ``linear_loss`` adds scalar outputs without a factor.

    Raises:
        UnsupportedModuleError: an output is not a scalar, and does not have one row per
            sample.
    """
    generator = torch.Generator().manual_seed(SEED)
    slopes = []
    for leaf in _float_leaves(outputs):
        if leaf.dim() > 0 and len(leaf) != SAMPLES:
            raise UnsupportedModuleError(
                f"the module must return one row for each of {SAMPLES} samples, got an "
                f"output of shape {list(leaf.shape)}. Keep the samples in the first "
                "dimension."
            )
        shape = leaf.shape if leaf.dim() else (1,)
        slopes.append(torch.randn(shape, generator=generator).to(leaf))
    return slopes


def linear_loss(outputs: Any, slopes: list[Tensor], scale: float) -> Tensor:
    """Returns sum_i <outputs_i, slopes_i> / scale, plus the scalar outputs."""
    pairs = list(zip(_float_leaves(outputs), slopes, strict=True))
    total = torch.zeros(())
    for leaf in (leaf for leaf, _ in pairs if not leaf.dim()):  # losses are read first
        total = total + leaf.cpu()
    for leaf, slope in pairs:
        if leaf.dim():
            total = total + ((leaf * slope).sum() / scale).cpu()
    return total


def keep_row(kept: Any, other: Any, i: int) -> Any:
    """Returns the tree ``other`` with row i of ``kept``."""
    return tree_map(lambda rows, new: replace_row(new, rows, i), kept, other)


def replace_row(rows: Any, new: Any, i: int) -> Any:
    """Returns the leaf ``rows`` with row i of ``new``; a leaf without rows stays."""
    if not has_rows(rows, SAMPLES):
        return rows
    mixed = rows.clone()
    mixed[i] = new[i]
    return mixed


def repeated(tree: Any, i: int) -> Any:
    """Returns the tree with row i in place of all rows."""
    return tree_map(
        lambda x: x[i : i + 1].expand_as(x).clone() if has_rows(x, SAMPLES) else x, tree
    )


def with_equal_positions(tree: Any) -> Any:
    """Returns inputs with the values of the first position at all positions of a row.

    Positions are the T of ids [T] and of vectors [T, d], and the height and width of
    images [channels, height, width].
    """
    return tree_map(
        lambda x: _at_first_position(x) if has_rows(x, SAMPLES) else x, tree
    )


def _at_first_position(rows: Tensor) -> Tensor:
    if rows.dtype == torch.bool:
        return rows
    first_dim = 1 if _is_integer(rows) or rows.dim() == 3 else 2
    last_dim = rows.dim() if rows.dim() > 3 else min(rows.dim(), first_dim + 1)
    for dim in range(first_dim, last_dim):
        if rows.shape[dim]:
            rows = rows.narrow(dim, 0, 1).expand_as(rows)
    return rows.clone()


def rotated(tree: Any) -> Any:
    """Returns the tree with every row moved to the next sample."""
    return tree_map(lambda x: x.roll(1, 0) if has_rows(x, SAMPLES) else x, tree)


def without_last(tree: Any) -> Any:
    """Returns the tree with one sample fewer."""
    return tree_map(lambda x: x[:-1] if has_rows(x, SAMPLES) else x, tree)


def _with_rows(
    tree: Any, size: int, draw: Callable[[Shape, Tensor, int], Tensor]
) -> Any:
    leaves, spec = tree_flatten(tree)
    for index, leaf in enumerate(leaves):
        if has_rows(leaf, size):
            leaves[index] = draw((SAMPLES, *leaf.shape[1:]), leaf, index).to(leaf)
    return tree_unflatten(leaves, spec)


def has_rows(leaf: Any, size: int) -> bool:
    """Returns True if a leaf is a tensor with one row per sample."""
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == size


def _float_leaves(outputs: Any) -> list[Tensor]:
    return [leaf for leaf in tensors_of(outputs) if leaf.is_floating_point()]
