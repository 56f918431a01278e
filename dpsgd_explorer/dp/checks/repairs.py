"""Replaces layers that cannot be trained with the guarantee by similar layers.

A repaired model computes another function, so each change is reported with its effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from dpsgd_explorer.dp.modules.rejected import check_initialized

#: Maximum number of groups of a GroupNorm: the default of Wu and He (2018),
#: arXiv:1803.08494.
MAX_GROUPS = 32


class Repair(NamedTuple):
    """The repair of one module.

    Attributes:
        module: The replacement; the module itself if only a setting changed.
        change: The change, in words.
        meaning: Its effect on the model, in words.
    """

    module: nn.Module
    change: str
    meaning: str


def make_private_ready(
    model: nn.Module, *, tell: Callable[[str], object] = print
) -> nn.Module:
    """Replaces the layers that the engine would reject by similar layers, in place.

    Batch normalization becomes group normalization.  Running statistics of instance
    normalization are switched off, as are ``max_norm`` and ``scale_grad_by_freq`` of
    embeddings.  Call this function before you create the optimizer, since it replaces
    parameters.  A repaired model computes another function: each change is reported
    with its effect.  Other reasons for a rejection remain; ``dp.examine`` lists them.

    Args:
        model: The model, which is changed.  If it is itself a layer to be replaced, it
            stays as it is.
        tell: Function that receives one line of text per change, or the line "Nothing
            to repair."

    Returns:
        The repaired model: ``model`` itself, or its replacement if it is one layer.

    Raises:
        UnsupportedModuleError: a lazy layer had no forward pass yet.

    Source: Wu and He (2018), arXiv:1803.08494 (group normalization).

    Example:
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        >>> changes = []
        >>> model = dp.make_private_ready(model, tell=changes.append)
        >>> type(model[1])
        <class 'torch.nn.modules.normalization.GroupNorm'>
        >>> print(changes[0].split(". ")[0])
        1 (BatchNorm2d): replaced by GroupNorm(4, 8)
    """
    check_initialized(model)
    replaced: dict[nn.Module, nn.Module] = {}
    for name, module in list(model.named_modules()):
        repair = repair_of(module)
        if repair is None:
            continue
        where = f"{name or 'the model'} ({type(module).__name__})"
        tell(f"{where}: {repair.change}. {repair.meaning}.")
        replaced[module] = repair.module
    if not replaced:
        tell("Nothing to repair.")
    for parent in list(model.modules()):
        # named_children() yields a layer once, also if the parent has two names for it.
        for local, child in list(parent._modules.items()):
            if child in replaced:
                setattr(parent, local, replaced[child])
    return replaced.get(model, model)


def repair_of(module: nn.Module) -> Repair | None:
    """Returns the repair of one module; None if there is no repair, or no need."""
    if isinstance(module, _BatchNorm):
        return _group_norm(module)
    if isinstance(module, _InstanceNorm) and module.track_running_stats:
        return _without_statistics(module)
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return _plain_embedding(module)
    return None


def _group_norm(norm: _BatchNorm) -> Repair:
    """Returns a group norm with the scale and shift of the batch norm."""
    # BatchNorm1d inputs may have one value per channel.  With several groups a group
    # could then contain a single value, which normalization maps to 0.
    groups = 1 if isinstance(norm, nn.BatchNorm1d) else _groups(norm.num_features)
    affine = norm.affine
    new = nn.GroupNorm(groups, norm.num_features, norm.eps, affine)
    if affine:
        new.to(norm.weight)
        new.load_state_dict({"weight": norm.weight, "bias": norm.bias})
        new.weight.requires_grad_(norm.weight.requires_grad)
        new.bias.requires_grad_(norm.bias.requires_grad)
    return Repair(
        new.train(norm.training),
        f"replaced by GroupNorm({groups}, {norm.num_features})",
        "Each sample is normalized separately, in training and in evaluation; running "
        "statistics are removed, so trained weights must be fine-tuned",
    )


def _groups(channels: int) -> int:
    """Returns the largest number of groups up to 32 with at least two channels each."""
    fitting = [n for n in range(1, MAX_GROUPS + 1) if channels % n == 0]
    return max([n for n in fitting if channels // n > 1], default=1)


def _without_statistics(norm: _InstanceNorm) -> Repair:
    norm.track_running_stats = False
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        setattr(norm, name, None)
    return Repair(
        norm,
        "track_running_stats switched off",
        "It uses the statistics of the sample in evaluation too, as in training",
    )


def _shorten_rows(weight: Tensor, norm_type: float, max_norm: float) -> None:
    """Scales rows above ``max_norm`` down to it, as a look-up of all rows does."""
    rows = torch.arange(len(weight), device=weight.device)
    torch.embedding_renorm_(weight.detach(), rows, max_norm, norm_type)


def _plain_embedding(table: nn.Embedding | nn.EmbeddingBag) -> Repair | None:
    changes, meanings = [], []
    if table.scale_grad_by_freq:
        table.scale_grad_by_freq = False
        changes.append("scale_grad_by_freq switched off")
        meanings.append("Gradients of frequent ids are no longer scaled down")
    if table.max_norm is not None:
        _shorten_rows(table.weight, table.norm_type, table.max_norm)
        table.max_norm = None
        changes.append("max_norm switched off")
        meanings.append(
            "Rows are shortened once, now, and may grow longer during training"
        )
    if not changes:
        return None
    return Repair(table, " and ".join(changes), ". ".join(meanings))
