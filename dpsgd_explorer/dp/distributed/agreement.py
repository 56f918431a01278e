"""Comparisons among the ranks of a group: replicas, data sets, and parameters later."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.distributed.ranks import Ranks
from dpsgd_explorer.dp.distributed.sharding import is_shard
from dpsgd_explorer.errors import ConfigError

#: Number of steps between two comparisons of the parameters.  A comparison copies every
#: parameter to the CPU and reads it, which would take too long at each step.
COMPARISON_STEPS = 20
#: Minimum number of records of a data set that are compared, evenly spaced; a smaller
#: data set is compared whole.  They show a shuffled or different data set without
#: reading all of it.
MIN_COMPARED_RECORDS = 64


def fingerprint(tensors: Iterable[Tensor]) -> int:
    """Returns the CRC-32 of the tensors' bytes, to compare tensors among ranks."""
    code = 0
    for tensor in tensors:
        entries = tensor.detach().cpu().contiguous().flatten()
        code = zlib.crc32(entries.view(torch.uint8).numpy().data, code)
    return code


def step_fingerprint(step: int, parameters: Iterable[nn.Parameter]) -> int:
    """Returns the fingerprint of the parameters at steps that compare it, else 0.

    Sharded parameters are left out: each rank stores other rows of them.
    """
    if step % COMPARISON_STEPS:
        return 0
    return fingerprint(p for p in parameters if not is_shard(p))


def _model_properties(module: nn.Module) -> dict[str, Any]:
    """Returns {name: properties} of the parameters and buffers, equal on all ranks."""
    return {
        f"the model's {name}": (
            tuple(tensor.shape),
            str(tensor.dtype),
            tensor.requires_grad,
            0 if is_shard(tensor) else fingerprint([tensor]),
        )
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]
    }


def require_equal_replicas(module: nn.Module, ranks: Ranks) -> None:
    """Checks that the ranks' replicas of the model are equal.

    Raises:
        ConfigError: a parameter or buffer differs among ranks, or a parameter is on a
            device that the group's backend does not support.
    """
    if ranks.is_alone:
        return
    for name, parameter in module.named_parameters():
        if parameter.device.type not in ranks.devices:
            supported = " and ".join(sorted(ranks.devices))
            raise ConfigError(
                "group",
                f"group must support tensors on {parameter.device}, the device of "
                f"{name}; its backend supports only {supported}. Move the model "
                f'to {supported}, or pass a group with another backend: "gloo" for '
                'cpu, "nccl" for cuda.',
            )
    ranks.require_equal(_model_properties(module))


def require_equal_data(size: int, columns: Iterable[Tensor], ranks: Ranks) -> None:
    """Checks that the ranks' copies of a data set are equal.

    Args:
        size: Number of records.
        columns: Tensors of the data set; some of their records are compared.  Empty for
            a data set of items: these may be augmented at random, so only the length is
            compared.
        ranks: The processes that train together.

    Raises:
        ConfigError: the length or a column differs; the message names it.
    """
    if ranks.is_alone:
        return
    stride = max(1, size // MIN_COMPARED_RECORDS)
    column_properties = {
        f"column {i} of the data set": (
            tuple(column.shape),
            str(column.dtype),
            fingerprint([column[::stride]]),
        )
        for i, column in enumerate(columns)
    }
    ranks.require_equal({"the data set's length": size, **column_properties})
