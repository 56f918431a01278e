"""Rejects modules by their type and settings, before the safety check runs.

The safety check would reject some of them too, but only at the first forward pass, and
without a remedy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from dpsgd_explorer.errors import UnsupportedModuleError

Table = nn.Embedding | nn.EmbeddingBag


def check_kinds(module: nn.Module) -> None:
    """Raises UnsupportedModuleError for modules that cannot be trained privately.

    These are lazy layers without a size, layers that mix samples (also frozen layers),
    embedding tables that rewrite their rows, and wrappers that run copies of a module.
    """
    _raise_first(_reasons(module, _uninitialized, *REASONS))


def check_initialized(module: nn.Module) -> None:
    """Raises UnsupportedModuleError for a lazy layer before its first forward pass."""
    _raise_first(_reasons(module, _uninitialized))


def check_not_compiled(module: nn.Module) -> None:
    """Raises UnsupportedModuleError for a module compiled before ``attach``."""
    _raise_first(_reasons(module, _compiled))


def reasons_by_kind(module: nn.Module) -> Iterator[str]:
    """Yields the message of each submodule that is rejected by its type or settings."""
    return _reasons(module, _compiled, _uninitialized, *REASONS)


def _raise_first(reasons: Iterator[str]) -> None:
    for reason in reasons:
        raise UnsupportedModuleError(reason)


def _reasons(
    module: nn.Module, *reasons_of: Callable[[nn.Module], str]
) -> Iterator[str]:
    for reason_of in reasons_of:
        for name, submodule in module.named_modules():
            reason = reason_of(submodule)
            if reason:
                where = name or "the module"
                yield f"{where} ({type(submodule).__name__}) {reason}"


def _uninitialized(module: nn.Module) -> str:
    tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    if not any(map(is_lazy, tensors)):
        return ""
    return (
        "has parameters without a size before its first forward pass. Call the module "
        "once on an example, such as module(x[:2]) under torch.no_grad(), and create "
        "optimizer and engine afterwards."
    )


def _batch_statistics(module: nn.Module) -> str:
    if not isinstance(module, nn.modules.batchnorm._BatchNorm):
        return ""
    return (
        "normalizes each sample with the other samples of its batch, also when frozen. "
        "Use GroupNorm or LayerNorm instead."
    )


def _rewritten_rows(module: nn.Module) -> str:
    if not isinstance(module, Table) or module.max_norm is None:
        return ""
    return (
        f"has max_norm={module.max_norm:g}, which rewrites the rows that a batch looks "
        "up, without noise, also when frozen. Shorten all rows once, before training, "
        "with make_private_ready(model), or set max_norm=None. You may shorten trained "
        "rows again after optimizer.step(); that costs no privacy."
    )


def _data_parallel(module: nn.Module) -> str:
    if not isinstance(module, nn.DataParallel):
        return ""
    return (
        "runs copies of its module, and the engine cannot watch the layers of copies. "
        "Attach to model.module, on one device."
    )


def _distributed(module: nn.Module) -> str:
    if not isinstance(module, nn.parallel.DistributedDataParallel):
        return ""
    return (
        "adds up the gradients of all processes before they can be clipped and get "
        "noise together: every process would draw separate batches and noise, and "
        "count only its own steps. Pass PrivacyEngine(..., group=dist.group.WORLD), or "
        "train model.module in one process."
    )


def _compiled(module: nn.Module) -> str:
    optimized = _loaded("torch._dynamo.eval_frame", "OptimizedModule")
    in_place = vars(module).get("_compiled_call_impl") is not None
    if not isinstance(module, optimized) and not in_place:
        return ""
    return (
        "was compiled before the engine was attached, so it does not contain the "
        "engine's hooks. Attach to the inner module (the argument of torch.compile), "
        "and compile afterwards."
    )


def _loaded(where: str, *names: str) -> tuple[type[Any], ...]:
    """Returns classes of a module of torch; () if it was not imported.

    A model cannot contain such a class before its import, which takes long.
    """
    source = sys.modules.get(where)
    kinds = [getattr(source, name, None) for name in names]
    return tuple(kind for kind in kinds if kind is not None)


#: Functions that return the reason why a module is rejected, or "".
REASONS: tuple[Callable[[nn.Module], str], ...] = (
    _batch_statistics,
    _rewritten_rows,
    _data_parallel,
    _distributed,
)
