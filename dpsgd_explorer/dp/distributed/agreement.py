"""What the ranks of a group compare before the first step, and now and then after."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.distributed.ranks import Ranks
from dpsgd_explorer.dp.distributed.sharding import is_shard
from dpsgd_explorer.errors import ConfigError

#: Steps from one comparison of the parameters to the next.
COMPARED_EVERY = 20
#: Records of a data set that are compared, evenly spaced.
COMPARED_RECORDS = 64


def fingerprint(tensors: Iterable[Tensor]) -> int:
    """Return 32 bits that differ, but for chance, where any bit of a tensor does."""
    code = 0
    for tensor in tensors:
        entries = tensor.detach().cpu().contiguous().flatten()
        code = zlib.crc32(entries.view(torch.uint8).numpy().data, code)
    return code


def step_fingerprint(step: int, parameters: Iterable[nn.Parameter]) -> int:
    """Return the fingerprint of the parameters at steps that compare it, else 0.

    Shards are parts of one parameter, and differ.
    """
    if step % COMPARED_EVERY:
        return 0
    return fingerprint(p for p in parameters if not is_shard(p))


def _of_model(module: nn.Module) -> dict[str, Any]:
    """Return what the ranks' replicas must have in common, by parameter and buffer."""
    return {
        f"the model's {name}": (
            tuple(tensor.shape),
            str(tensor.dtype),
            tensor.requires_grad,
            0 if is_shard(tensor) else fingerprint([tensor]),
        )
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]
    }


def refuse_unlike(module: nn.Module, ranks: Ranks) -> None:
    """Check that the ranks' replicas are equal, and where the group can add them up.

    Raises:
        ConfigError: a parameter or buffer differs, or lies on another kind of device
            than the group's backend takes.
    """
    if ranks.is_alone:
        return
    for name, parameter in module.named_parameters():
        if parameter.device.type not in ranks.devices:
            taken = " and ".join(sorted(ranks.devices))
            raise ConfigError(
                "group",
                f"group must support tensors on {parameter.device}, the device of "
                f"{name}; its backend supports only {taken}. Move the model to "
                f'{taken}, or pass a group with another backend: "gloo" for cpu, '
                '"nccl" for cuda.',
            )
    ranks.require_same(_of_model(module))


def refuse_unlike_data(size: int, columns: Iterable[Tensor], ranks: Ranks) -> None:
    """Check that the ranks' copies of a data set are equal.

    Args:
        size: Number of records.
        columns: Its tensors; some of their records are compared.  None are for a data
            set of any other kind, whose items may be augmented at random.
        ranks: The processes.

    Raises:
        ConfigError: naming what differs.
    """
    if ranks.is_alone:
        return
    every = max(1, size // COMPARED_RECORDS)
    of_columns = {
        f"column {i} of the data set": (
            tuple(column.shape),
            str(column.dtype),
            fingerprint([column[::every]]),
        )
        for i, column in enumerate(columns)
    }
    ranks.require_same({"the data set's length": size, **of_columns})
