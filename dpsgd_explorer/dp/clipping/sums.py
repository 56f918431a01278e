"""Chooses the sum of clipped gradients: of whole parameters, or of a rank's rows."""

from __future__ import annotations

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum, Parameters
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.distributed.ranks import Ranks
from dpsgd_explorer.dp.distributed.sharding import is_shard


def clipped_sum(parameters: Parameters, clipper: Clipper, ranks: Ranks) -> ClippedSum:
    """Return the sum of a logical batch, whole or of this rank's shards.

    Args:
        parameters: {layer: {local name: parameter}}.
        clipper: Gives the factor of each sample.
        ranks: The processes whose sums are added up.
    """
    if not any(is_shard(p) for own in parameters.values() for p in own.values()):
        return ClippedSum(parameters, clipper, ranks)
    # Loads torch's sharded tensors, which take long.
    from dpsgd_explorer.dp.clipping.sharded_sum import ShardedSum

    return ShardedSum(parameters, clipper, ranks)
