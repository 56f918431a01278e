"""Modules whose parameters are sharded over the ranks by ``fully_shard`` (FSDP2).

Each rank stores rows of every parameter, and holds the whole parameters of a layer only
while the layer runs.  A record's activations and output gradients are on one rank, so
norms and clipping factors need no other rank, as without sharding; a layer's sum is
made whole, and each rank receives the sum over the ranks of its own rows.
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
    """Whether this process has a part of the tensor only (a ``DTensor``)."""
    return isinstance(tensor, _loaded("torch.distributed.tensor", "DTensor"))


def local(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that this process stores, on the same memory."""
    if not is_shard(tensor):
        return tensor
    part: Tensor = tensor.to_local()  # type: ignore[attr-defined]
    return part.detach()


def as_shard_of(parameter: Tensor, part: Tensor) -> Tensor:
    """Return a tensor that is spread as the parameter, with this process's part."""
    (kind,) = _loaded("torch.distributed.tensor", "DTensor")
    spread: Any = parameter
    whole: Tensor = kind(part, spread._spec, requires_grad=False)
    return whole


def shards_of(module: nn.Module) -> Iterator[Any]:
    """Yield the modules inside that ``fully_shard`` was applied to."""
    kinds = _loaded("torch.distributed.fsdp", "FSDPModule")
    return (m for m in module.modules() if isinstance(m, kinds))


def is_sharded(module: nn.Module) -> bool:
    """Whether ``fully_shard`` was applied to the module or to one inside."""
    return next(shards_of(module), None) is not None


def reshard(module: nn.Module) -> None:
    """Free whole parameters: after it the module has its shards as parameters."""
    for shard in shards_of(module):
        shard.reshard()


def rows_of(tensor: Tensor, rank: int, size: int) -> Tensor:
    """Return the rows that a rank stores: ceil(rows / W); the last ranks fewer."""
    most = -(-len(tensor) // size)
    return tensor[rank * most : (rank + 1) * most]


def stored_part(whole: Tensor, parameter: Tensor, ranks: Ranks) -> Tensor:
    """Return the part of a whole gradient that this process stores of a parameter."""
    return rows_of(whole, ranks.rank, ranks.size) if is_shard(parameter) else whole


def gradients_of(
    loss: Tensor, parameters: Sequence[nn.Parameter]
) -> Sequence[Tensor | None]:
    """Return autograd's gradients of a loss; None where it does not depend.

    Of shards this process's part, of the mean over the ranks that ``fully_shard``
    makes; their losses must be equal.
    """
    if not any(map(is_shard, parameters)):
        return torch.autograd.grad(loss, parameters, allow_unused=True)
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    loss.backward()  # type: ignore[no-untyped-call]
    found = [parameter.grad for parameter in parameters]
    for parameter, gradient in zip(parameters, before, strict=True):
        parameter.grad = gradient
    return [None if each is None else local(each) for each in found]


def refuse_sharding(module: nn.Module, ranks: Ranks, engine: str) -> None:
    """Check how the parameters of a module are spread over processes, if they are.

    Args:
        module: The model.
        ranks: The processes of the engine.
        engine: A key of ENGINES.

    Raises:
        UnsupportedModuleError: in another way than by ``fully_shard`` over these ranks.
    """
    for name, each in module.named_modules():
        reason = _foreign(each)
        if reason:
            raise _refusal(name, each, reason)
    if not is_sharded(module):
        _refuse_tensor_parallel(module, set())
        return
    first = next(shards_of(module))
    name = next(name for name, each in module.named_modules() if each is first)
    if ranks is ALONE:
        raise _refusal(
            name,
            first,
            "is sharded (FSDP2), so its gradients are added up over processes. Pass "
            "PrivacyEngine(..., group=dist.group.WORLD), or train it unsharded",
        )
    if engine != "hooks":
        raise _refusal(
            name,
            first,
            "is sharded (FSDP2): its parameters are complete only while a layer runs, "
            f'but engine={engine!r} needs them at other times. Use engine="hooks"',
        )
    _refuse_tensor_parallel(module, _managed(module))
    _refuse_spread(module, ranks)


def _foreign(module: nn.Module) -> str:
    """Return why a wrapper of other kinds of sharding is refused; "" if it is none."""
    kinds = _loaded("torch.distributed.fsdp", "FullyShardedDataParallel")
    if isinstance(module, kinds):
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


def _refuse_tensor_parallel(module: nn.Module, managed: set[int]) -> None:
    """Refuse shards that ``fully_shard`` has not made."""
    for name, parameter in module.named_parameters():
        if is_shard(parameter) and id(parameter) not in managed:
            raise UnsupportedModuleError(
                f"{name} is split over processes by tensor parallelism: no process has "
                "a sample's whole gradient, so none can compute its norm. Shard with "
                "torch.distributed.fsdp.fully_shard instead, or not at all."
            )


def _refuse_spread(module: nn.Module, ranks: Ranks) -> None:
    """Refuse trainable parameters that are not split by rows over the group."""
    members = ranks.members
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        if not is_shard(parameter):
            raise UnsupportedModuleError(
                f"{name} is not sharded, but other parameters are. Apply fully_shard "
                "to the whole model, after the layers inside."
            )
        spread: Any = parameter
        whole = spread.device_mesh.mesh.flatten().tolist()
        split = [str(each) for each in spread.placements]
        by_rows = len(split) == 1 and spread.placements[0].is_shard(0)
        if not by_rows or whole != members:
            raise UnsupportedModuleError(
                f"{name} is spread as {', '.join(split)} over processes {whole}; it "
                f"must be split by rows over the engine's group, {members}. Use "
                "fully_shard with a mesh of one dimension, of the ranks of group=."
            )


def _managed(module: nn.Module) -> set[int]:
    """Return the ids of the parameters that ``fully_shard`` has split."""
    return {
        id(each.sharded_param)
        for shard in shards_of(module)
        for group in shard._get_fsdp_state()._fsdp_param_groups
        for each in group.fsdp_params
    }


def _refusal(name: str, module: nn.Module, reason: str) -> UnsupportedModuleError:
    where = f"{name or 'the module'} ({type(module).__name__})"
    return UnsupportedModuleError(f"{where} {reason}.")


def _loaded(where: str, *names: str) -> tuple[type[Any], ...]:
    """Return the classes of one of torch's modules, if it has been imported.

    A model cannot contain them otherwise, so they are not imported for this.
    """
    source = sys.modules.get(where)
    kinds = [getattr(source, name, None) for name in names]
    return tuple(kind for kind in kinds if kind is not None)
