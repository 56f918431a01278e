"""The random generators of a run: one for its noise, one for its sampling."""

from __future__ import annotations

from typing import NamedTuple

import torch

from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.dp.noise.base import NoiseSource
from dpsgd_explorer.dp.noise.seeded import (
    NOISES,
    RankNoise,
    RankStream,
    fresh_seed,
    seeded_generator,
)
from dpsgd_explorer.errors import ConfigError


class Generators(NamedTuple):
    """Two independent random streams.

    Attributes:
        noise: Gaussian noise.
        sampling: Uniform numbers for the sampler.  With secure noise they are secret
            too, because sampling amplifies privacy only if nobody knows which records
            are in a batch.
        seed: Seed of both streams, given or drawn; None if noise is secure.
    """

    noise: NoiseSource
    sampling: torch.Generator | KeyStream | RankStream
    seed: int | None


def generators(
    noise: str, seed: int | None, ranks: Ranks = ALONE, *, samples_alone: bool = False
) -> Generators:
    """Returns the generators of a run.

    The ranks of a group draw equal batches and independent noise.

    Args:
        noise: A key of NOISES.
        seed: Seed for ``noise="seeded"``; drawn from the operating system if None.
        ranks: The processes that train together.
        samples_alone: If True, each rank draws separate batches, from local records.

    Raises:
        ConfigError: a seed was given with secure noise, or the seed differs among
            ranks.
    """
    if noise == "secure":
        if seed is not None:
            raise ConfigError(
                "seed",
                f'seed must not be given with noise="secure", got {seed!r}. Pass '
                'noise="seeded" for a run that you can repeat; such a run is not '
                "private.",
            )
        key = bytes if samples_alone else ranks.broadcast_secret
        return Generators(NOISES[noise](0), KeyStream(key), None)
    if seed is None:
        seed = int.from_bytes(
            ranks.broadcast_secret(fresh_seed().to_bytes(8, "big")), "big"
        )
    ranks.require_equal({"seed": seed})
    return Generators(
        NOISES[noise](seed)
        if ranks.is_alone
        else RankNoise(seed, ranks.rank, ranks.size),
        RankStream(seed, ranks.rank, ranks.size)
        if samples_alone and not ranks.is_alone
        else seeded_generator(seed, "sampling"),
        seed,
    )
