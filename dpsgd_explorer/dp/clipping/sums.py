"""Choice of the clipped sum, for whole or for sharded (FSDP2) parameters."""

from __future__ import annotations

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum, Parameters
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.distributed.ranks import Ranks
from dpsgd_explorer.dp.distributed.sharding import is_shard


def clipped_sum(parameters: Parameters, clipper: Clipper, ranks: Ranks) -> ClippedSum:
    """Returns a new clipped sum for the parameters.

    Args:
        parameters: {layer: {local name: parameter}}.
        clipper: Computes the clipping factor of each sample.
        ranks: The processes whose sums are added.
    """
    by_name = parameters.values()
    if not any(is_shard(p) for named in by_name for p in named.values()):
        return ClippedSum(parameters, clipper, ranks)
    # Imported only here, because it loads torch's sharded tensors, which takes long.
    from dpsgd_explorer.dp.clipping.sharded_sum import ShardedSum

    return ShardedSum(parameters, clipper, ranks)
