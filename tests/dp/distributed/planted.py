"""Bugs of training by several processes, planted in this process while they last."""

from unittest.mock import patch

import torch

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.clipping.sharded_sum import ShardedSum
from dpsgd_explorer.dp.distributed.ranks import Ranks
from dpsgd_explorer.dp.noise import seeded
from dpsgd_explorer.dp.sampling.loader import PoissonLoader

add_up, release = Ranks.add_up, ClippedSum.release


def divided(ranks, flat):
    add_up(ranks, flat)
    flat /= ranks.size


def noise_before_the_sum(total, noise, standard_deviation, divisor):
    if noise is not None:
        for flat in total._flats:
            noise.add_to(flat, standard_deviation)
    return release(total, None, standard_deviation, divisor)


def noise_before_the_scatter(total, noise, standard_deviation, divisor):
    for unit, own in total._parameters.items():
        whole = [torch.zeros(parameter.shape) for parameter in own.values()]
        for tensor in whole:
            noise.add_to(tensor.flatten(), standard_deviation)
        for name, rows in zip(own, total._scatter(whole), strict=True):
            total.sums[unit][name].add_(rows.view_as(total.sums[unit][name]))
    return release(total, None, standard_deviation, divisor)


def own_secret(ranks, secret):
    return secret


class SameNoise(seeded.RankNoise):
    """Noise of one seed on every rank."""

    def __init__(self, seed, rank, size):
        super().__init__(seed, 0, size)


def skipped_when_empty(loader, end):
    """Yield batches as samplers that drop empty ones do."""
    for indices in loader.batch_sampler.until(end):
        for part in loader._parts(indices):
            if len(part.indices):
                loader._note(part)
                yield loader._fetch(part.indices)


class SameDraws(seeded.RankStream):
    """Draws of one seed on every rank, each from its own records."""

    def __init__(self, seed, rank, size):
        super().__init__(seed, 0, size)


BUGS = {
    "skipped empty ranks": lambda: patch.object(
        PoissonLoader, "_records", skipped_when_empty
    ),
    "divided by W": lambda: patch.object(Ranks, "add_up", divided),
    "noise before the sum": lambda: patch.object(
        ClippedSum, "release", noise_before_the_sum
    ),
    "noise before the scatter": lambda: patch.object(
        ShardedSum, "release", noise_before_the_scatter
    ),
    "no broadcast": lambda: patch.object(Ranks, "broadcast_secret", own_secret),
    "same seed": lambda: patch(
        "dpsgd_explorer.dp.noise.generators.RankNoise", SameNoise
    ),
    "same draws": lambda: patch(
        "dpsgd_explorer.dp.noise.generators.RankStream", SameDraws
    ),
    "skipped sum": lambda: patch.object(Ranks, "add_up", lambda ranks, flat: None),
}
