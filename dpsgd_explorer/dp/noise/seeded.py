"""Gaussian noise from a seed.

Noise is drawn and added in chunks that fit in the processor's cache, so the noise of
all parameters is never in memory together.  It is drawn in float32 or float64.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

import torch
from torch import Tensor

from dpsgd_explorer.dp.noise.base import NoiseSource
from dpsgd_explorer.dp.noise.secure import SecureNoise

#: Maximum number of entries per call: 256 KiB in float32, which fits in the cache.
CHUNK_ENTRIES = 2**16


class SeededNoise:
    """Noise that repeats with its seed: for demonstrations, not private.

    Args:
        seed: Seed of the noise.
    """

    note = "reproducible, therefore not private"
    repeatable = True

    def __init__(self, seed: int) -> None:
        self._generator = seeded_generator(seed, "noise")

    def add_to(
        self, values: Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> Tensor | float:
        """Adds noise and divides, as ``Noise.add_to`` does."""
        square = torch.dot(values, values)
        for chunk in torch.split(values, CHUNK_ENTRIES):
            noise = torch.empty(len(chunk), dtype=values.dtype)
            noise.normal_(0.0, standard_deviation, generator=self._generator)
            chunk.add_(noise.to(values.device)).div_(divisor)
        return square

    def state(self) -> Tensor:
        """Returns the generator's state."""
        return self._generator.get_state()

    def restore(self, state: Tensor) -> None:
        """Continues from a state."""
        self._generator.set_state(state)


class RankNoise(SeededNoise):
    """Seeded noise of one rank of a group; each rank draws different noise.

    After a resume the noise is fresh, because the state may come from another rank or
    from a group of another size.

    Args:
        seed: Seed that all ranks share.
        rank: Rank of this process.
        size: Number of ranks.
    """

    repeatable = False

    def __init__(self, seed: int, rank: int, size: int) -> None:
        self._name = f"noise/{rank}/{size}"
        self._generator = seeded_generator(seed, self._name)

    def restore(self, state: Tensor) -> None:
        """Continues with noise that depends on the state and the rank."""
        self._generator = derived_generator(state, self._name)


class RankStream:
    """Seeded uniform numbers of one rank of a group; each rank draws different numbers.

    Args:
        seed: Seed that all ranks share.
        rank: Rank of this process.
        size: Number of ranks.
    """

    def __init__(self, seed: int, rank: int, size: int) -> None:
        self._name = f"sampling/{rank}/{size}"
        self._generator = seeded_generator(seed, self._name)

    def uniforms(self, count: int) -> Tensor:
        """Returns the next uniform numbers in [0, 1), float64 [count]."""
        return torch.rand(count, dtype=torch.float64, generator=self._generator)

    def get_state(self) -> Tensor:
        """Returns the generator's state."""
        return self._generator.get_state()

    def set_state(self, state: Tensor) -> None:
        """Continues from a state of this rank."""
        self._generator.set_state(state)

    def renew(self) -> None:
        """Continues with numbers that depend on the state and the rank.

        Call it after ``set_state`` with a state that may come from another rank.
        """
        self._generator = derived_generator(self._generator.get_state(), self._name)


def derived_generator(state: Tensor, purpose: str) -> torch.Generator:
    """Returns a generator whose stream depends on a generator's state and a purpose."""
    digest = hashlib.sha256(state.numpy().tobytes()).digest()
    return seeded_generator(int.from_bytes(digest[:8], "big"), purpose)


#: {name: constructor from a seed}; secure noise ignores the seed.
NOISES: dict[str, Callable[[int], NoiseSource]] = {
    "secure": lambda seed: SecureNoise(),
    "seeded": SeededNoise,
}


def seeded_generator(seed: int, purpose: str) -> torch.Generator:
    """Returns a generator whose stream depends on the seed and the purpose."""
    # The hash makes the streams of adjacent seeds and of different purposes unrelated.
    digest = hashlib.sha256(f"{purpose}/{seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big"))


def fresh_seed() -> int:
    """Returns a seed from the operating system."""
    return secrets.randbits(63)
