"""Modules whose parameters are sharded over the ranks by ``fully_shard`` (FSDP2).

Each rank stores some rows of every parameter.  It holds the whole parameters of a layer
only while the layer runs.  A sample's activations and output gradients are on one rank,
so each rank computes norms and clipping factors without the other ranks, as without
sharding.  Each rank then computes a layer's whole clipped sum of its samples, and
receives the rows that it stores, summed over the ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.errors import UnsupportedModuleError


def is_shard(tensor: Tensor) -> bool:
    """Returns True if this process stores only rows of the tensor (a ``DTensor``)."""
    return isinstance(tensor, _loaded("torch.distributed.tensor", "DTensor"))


def local(tensor: Tensor) -> Tensor:
    """Returns the rows of a tensor that this process stores, without a copy."""
    if not is_shard(tensor):
        return tensor
    rows: Tensor = tensor.to_local()  # type: ignore[attr-defined]
    return rows.detach()


def as_shard_of(parameter: Tensor, rows: Tensor) -> Tensor:
    """Returns a ``DTensor`` sharded like the parameter, from this process's rows."""
    (d_tensor,) = _loaded("torch.distributed.tensor", "DTensor")
    sharded: Any = parameter
    whole: Tensor = d_tensor(rows, sharded._spec, requires_grad=False)
    return whole


def shards_of(module: nn.Module) -> Iterator[Any]:
    """Yields the modules that were passed to ``fully_shard``."""
    classes = _loaded("torch.distributed.fsdp", "FSDPModule")
    return (m for m in module.modules() if isinstance(m, classes))


def is_sharded(module: nn.Module) -> bool:
    """Returns True if ``fully_shard`` was applied to the module or a submodule."""
    return next(shards_of(module), None) is not None


def reshard(module: nn.Module) -> None:
    """Frees the whole parameters, so that the module's parameters are its shards."""
    for shard in shards_of(module):
        shard.reshard()


def rows_of(tensor: Tensor, rank: int, size: int) -> Tensor:
    """Returns the rows of a tensor [n, ...] that a rank of W stores.

    The first ranks store ceil(n / W) rows each, and the last ranks fewer, or none.
    """
    count = -(-len(tensor) // size)
    return tensor[rank * count : (rank + 1) * count]


def stored_part(whole: Tensor, parameter: Tensor, ranks: Ranks) -> Tensor:
    """Returns the rows of a whole gradient that this process stores of a parameter."""
    return rows_of(whole, ranks.rank, ranks.size) if is_shard(parameter) else whole


def gradients_of(
    loss: Tensor, parameters: Sequence[nn.Parameter]
) -> Sequence[Tensor | None]:
    """Returns autograd's gradients of a loss; None for parameters without effect.

    For a sharded parameter it returns the rows of this process.  ``fully_shard``
    averages gradients over the ranks, so the losses of all ranks must be equal.
    """
    if not any(map(is_shard, parameters)):
        return torch.autograd.grad(loss, parameters, allow_unused=True)
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = [parameter.grad for parameter in parameters]
    for parameter, gradient in zip(parameters, before, strict=True):
        parameter.grad = gradient
    return [None if g is None else local(g) for g in gradients]


def check_sharding(module: nn.Module, ranks: Ranks, engine: str) -> None:
    """Checks that a module is not sharded, or sharded in the supported way.

    Args:
        module: The model.
        ranks: The processes of the engine.
        engine: A key of ENGINES.

    Raises:
        UnsupportedModuleError: the module is sharded in another way than by
            ``fully_shard`` over these ranks, or the engine does not support sharding.
    """
    for name, submodule in module.named_modules():
        reason = _unsupported_wrapper(submodule)
        if reason:
            raise _error(name, submodule, reason)
    if not is_sharded(module):
        _check_no_tensor_parallel(module, set())
        return
    first = next(shards_of(module))
    name = next(name for name, inner in module.named_modules() if inner is first)
    if ranks is ALONE:
        raise _error(
            name,
            first,
            "is sharded (FSDP2), so its gradients are added up over processes. Pass "
            "PrivacyEngine(..., group=dist.group.WORLD), or train it unsharded",
        )
    if engine != "hooks":
        raise _error(
            name,
            first,
            "is sharded (FSDP2): its parameters are complete only while a layer runs, "
            f'but engine={engine!r} needs them at other times. Use engine="hooks"',
        )
    _check_no_tensor_parallel(module, _fully_shard_ids(module))
    _check_placements(module, ranks)


def _unsupported_wrapper(module: nn.Module) -> str:
    """Returns why a module's way of sharding is not supported; "" if it is."""
    classes = _loaded("torch.distributed.fsdp", "FullyShardedDataParallel")
    if isinstance(module, classes):
        return (
            "is sharded by FullyShardedDataParallel (FSDP1): its flat parameters hide "
            "which layer they belong to. Use torch.distributed.fsdp.fully_shard"
        )
    if type(module).__module__.split(".")[0] == "deepspeed" or any(
        hasattr(p, "ds_id") for p in module.parameters(recurse=False)
    ):
        return (
            "is run by DeepSpeed, which adds up gradients and does the step before the "
            "engine can clip them and add noise. Use torch.distributed.fsdp.fully_shard"
        )
    return ""


def _check_no_tensor_parallel(module: nn.Module, supported_ids: set[int]) -> None:
    """Raises UnsupportedModuleError for sharded parameters with other ids."""
    for name, parameter in module.named_parameters():
        if is_shard(parameter) and id(parameter) not in supported_ids:
            raise UnsupportedModuleError(
                f"{name} is split over processes by tensor parallelism: no process has "
                "a sample's whole gradient, so none can compute its norm. Shard with "
                "torch.distributed.fsdp.fully_shard instead, or not at all."
            )


def _check_placements(module: nn.Module, ranks: Ranks) -> None:
    """Raises UnsupportedModuleError unless all are split by rows over the group.

    Only trainable parameters are checked.
    """
    members = ranks.members
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        if not is_shard(parameter):
            raise UnsupportedModuleError(
                f"{name} is not sharded, but other parameters are. Apply fully_shard "
                "to the whole model, after the layers inside."
            )
        sharded: Any = parameter
        mesh = sharded.device_mesh.mesh.flatten().tolist()
        placements = [str(placement) for placement in sharded.placements]
        by_rows = len(placements) == 1 and sharded.placements[0].is_shard(0)
        if not by_rows or mesh != members:
            raise UnsupportedModuleError(
                f"{name} is spread as {', '.join(placements)} over processes {mesh}; "
                f"it must be split by rows over the engine's group, {members}. Use "
                "fully_shard with a mesh of one dimension, of the ranks of group=."
            )


def _fully_shard_ids(module: nn.Module) -> set[int]:
    """Returns the ids of the parameters that ``fully_shard`` has sharded."""
    return {
        id(parameter.sharded_param)
        for shard in shards_of(module)
        for group in shard._get_fsdp_state()._fsdp_param_groups
        for parameter in group.fsdp_params
    }


def _error(name: str, module: nn.Module, reason: str) -> UnsupportedModuleError:
    where = f"{name or 'the module'} ({type(module).__name__})"
    return UnsupportedModuleError(f"{where} {reason}.")


def _loaded(module_name: str, *names: str) -> tuple[type[Any], ...]:
    """Returns classes of one of torch's modules, or () if it has not been imported.

    A model contains instances of these classes only if the module has been imported.
    Importing it here would slow down every run without sharding.
    """
    source = sys.modules.get(module_name)
    classes = [getattr(source, name, None) for name in names]
    return tuple(cls for cls in classes if cls is not None)
