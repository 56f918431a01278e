"""Where an engine's noise and its sampling coins come from."""

from __future__ import annotations

from typing import NamedTuple

import torch

from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.dp.noise.base import NoiseSource
from dpsgd_explorer.dp.noise.seeded import NOISES, fresh_seed, seeded_generator
from dpsgd_explorer.errors import ConfigError


class Sources(NamedTuple):
    """Two streams that have nothing to do with each other.

    Attributes:
        noise: Gaussian.
        coins: Of the sampler: who was drawn must stay secret too, or sampling does
            not amplify.
        seed: Of both, given or drawn; None if there is none.
    """

    noise: NoiseSource
    coins: torch.Generator | KeyStream
    seed: int | None


def sources(noise: str, seed: int | None) -> Sources:
    """Return the sources of a run.

    Args:
        noise: A key of NOISES.
        seed: Only for ``noise="seeded"``.

    Raises:
        ConfigError: a seed was given to what must not have one.
    """
    if noise == "secure":
        if seed is not None:
            raise ConfigError(
                "seed",
                f'seed must not be given with noise="secure"; got {seed!r}. Pass '
                'noise="seeded" for a run that can be repeated and is not private.',
            )
        return Sources(NOISES[noise](0), KeyStream(), None)
    seed = fresh_seed() if seed is None else seed
    return Sources(NOISES[noise](seed), seeded_generator(seed, "sampling"), seed)
