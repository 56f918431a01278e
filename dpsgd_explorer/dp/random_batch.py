"""Random batches of the shapes, dtypes and id ranges of a real one.

Nothing is read from the real tensors but their shape and dtype.  What does not have
one row a sample (a flag, a mask for all) is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from dpsgd_explorer.errors import UnsupportedModuleError

SAMPLES = 3
"""Rows of every random batch."""

SEED = 20_160_701


def random_call(
    module: nn.Module, call: Any, size: int, seed: int, scale: float = 1.0
) -> Any:
    """Return ``call`` with random rows.

    Args:
        module: What is called; ids stay within its smallest embedding table.
        call: Tree of inputs.
        size: Its number of samples.
        seed: Of the random rows.
        scale: Standard deviation of numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    tables = nn.Embedding | nn.EmbeddingBag
    sizes = [m.num_embeddings for m in module.modules() if isinstance(m, tables)]
    ids = min(sizes, default=2)
    wide = [leaf for leaf in tree_leaves(call) if _has_rows(leaf, size)]
    steps = min((leaf.shape[1] for leaf in wide if leaf.dim() > 1), default=0)

    def draw(shape: tuple[int, ...], like: Tensor) -> Tensor:
        if like.is_floating_point():
            return torch.randn(shape, generator=generator) * scale
        if like.dtype == torch.bool:
            return torch.ones(shape)
        if len(shape) == 1 and steps:  # as lengths of sequences: 0 is none
            return torch.randint(1, 1 + min(ids, steps), shape, generator=generator)
        return torch.randint(0, ids, shape, generator=generator)

    return _with_rows(call, size, draw)


def random_targets(targets: Any, size: int, outputs: Any) -> Any:
    """Return random labels, below the classes of the outputs, or numbers in (0, 1)."""
    generator = torch.Generator().manual_seed(SEED)
    first = next(leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor))
    classes = first.shape[1] if first.dim() > 1 and first.shape[1] > 1 else 2

    def draw(shape: tuple[int, ...], like: Tensor) -> Tensor:
        if like.is_floating_point():
            return torch.rand(shape, generator=generator)
        return torch.randint(0, classes, shape, generator=generator)

    return _with_rows(targets, size, draw)


def random_slopes(outputs: Any) -> list[Tensor]:
    """Return a random linear loss: a factor for each number of the outputs.

    A scalar output is a loss already and gets the factor 1.

    Raises:
        UnsupportedModuleError: an output has neither one row a sample nor no row.
    """
    generator = torch.Generator().manual_seed(SEED)
    slopes = []
    for leaf in _float_leaves(outputs):
        if leaf.dim() > 0 and len(leaf) != SAMPLES:
            raise UnsupportedModuleError(
                f"the module must give one row for each of {SAMPLES} samples, got an "
                f"output of shape {list(leaf.shape)}. Keep the samples in the first "
                "dimension."
            )
        shape = leaf.shape if leaf.dim() else (1,)
        slopes.append(torch.randn(shape, generator=generator).to(leaf))
    return slopes


def linear_loss(outputs: Any, slopes: list[Tensor], scale: float) -> Tensor:
    """Return sum_i <outputs_i, slopes_i> / scale, plus the scalar outputs."""
    total = torch.zeros(())
    for leaf, slope in zip(_float_leaves(outputs), slopes, strict=True):
        total = total + ((leaf * slope).sum() / scale if leaf.dim() else leaf).cpu()
    return total


def keep_row(kept: Any, other: Any, i: int) -> Any:
    """Return the tree ``other`` with row i of ``kept``."""

    def mix(own: Any, new: Any) -> Any:
        if not _has_rows(own, SAMPLES):
            return own
        mixed = new.clone()
        mixed[i] = own[i]
        return mixed

    return tree_map(mix, kept, other)


def rotated(tree: Any) -> Any:
    """Return the tree with every sample's row handed to the next."""
    return tree_map(lambda x: x.roll(1, 0) if _has_rows(x, SAMPLES) else x, tree)


def without_last(tree: Any) -> Any:
    """Return the tree with one sample fewer."""
    return tree_map(lambda x: x[:-1] if _has_rows(x, SAMPLES) else x, tree)


def _with_rows(
    tree: Any, size: int, draw: Callable[[tuple[int, ...], Tensor], Tensor]
) -> Any:
    def randomised(leaf: Any) -> Any:
        if not _has_rows(leaf, size):
            return leaf
        return draw((SAMPLES, *leaf.shape[1:]), leaf).to(leaf)

    return tree_map(randomised, tree)


def _has_rows(leaf: Any, size: int) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == size


def _float_leaves(outputs: Any) -> list[Tensor]:
    leaves = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]
    return [leaf for leaf in leaves if leaf.is_floating_point()]
