"""Gaussian noise from a seed.

Noise is drawn and added in pieces that stay in cache.  It is never stored for all
parameters at once, and never drawn in less than float32.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

import torch
from torch import Tensor

from dpsgd_explorer.dp.noise.base import NoiseSource
from dpsgd_explorer.dp.noise.secure import SecureNoise

#: Numbers drawn per call: 256 KiB in float32.
PIECE = 2**16


class SeededNoise:
    """Noise that repeats with its seed: for demonstrations, not private."""

    note = "reproducible, therefore not private"
    repeatable = True

    def __init__(self, seed: int) -> None:
        self._generator = seeded_generator(seed, "noise")

    def add_to(
        self, values: Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> Tensor | float:
        """Add independent N(0, standard_deviation^2) to all of [P], and divide them."""
        square = torch.dot(values, values)
        for piece in torch.split(values, PIECE):
            draw = torch.empty(len(piece), dtype=values.dtype)
            draw.normal_(0.0, standard_deviation, generator=self._generator)
            piece.add_(draw.to(values.device)).div_(divisor)
        return square

    def state(self) -> Tensor:
        """Return the generator's state."""
        return self._generator.get_state()

    def restore(self, state: Tensor) -> None:
        """Restore a state."""
        self._generator.set_state(state)


class RankNoise(SeededNoise):
    """Seeded noise of one rank of a group, unlike that of every other rank.

    After a resume the noise is fresh: the state may be another rank's, or that of a
    group of another size.

    Args:
        seed: Of all ranks.
        rank: This rank.
        size: Number of ranks.
    """

    repeatable = False

    def __init__(self, seed: int, rank: int, size: int) -> None:
        self._name = f"noise/{rank}/{size}"
        self._generator = seeded_generator(seed, self._name)

    def restore(self, state: Tensor) -> None:
        """Continue with noise that depends on the state and on the rank."""
        self._generator = renewed(state, self._name)


class RankStream:
    """Seeded uniform numbers of one rank of a group, unlike those of every other.

    Args:
        seed: Of all ranks.
        rank: This rank.
        size: Number of ranks.
    """

    def __init__(self, seed: int, rank: int, size: int) -> None:
        self._name = f"sampling/{rank}/{size}"
        self._generator = seeded_generator(seed, self._name)

    def uniforms(self, count: int) -> Tensor:
        """Return float64 [count] in [0, 1)."""
        return torch.rand(count, dtype=torch.float64, generator=self._generator)

    def get_state(self) -> Tensor:
        """Return the generator's state."""
        return self._generator.get_state()

    def set_state(self, state: Tensor) -> None:
        """Go back, or on, to a state of this rank."""
        self._generator.set_state(state)

    def renew(self) -> None:
        """Go on with numbers that depend on the rank: the state may be another's."""
        self._generator = renewed(self._generator.get_state(), self._name)


def renewed(state: Tensor, purpose: str) -> torch.Generator:
    """Return a generator whose stream depends on another's state and the purpose."""
    digest = hashlib.sha256(state.numpy().tobytes()).digest()
    return seeded_generator(int.from_bytes(digest[:8], "big"), purpose)


#: Name -> constructor from a seed; secure noise ignores it.
NOISES: dict[str, Callable[[int], NoiseSource]] = {
    "secure": lambda seed: SecureNoise(),
    "seeded": SeededNoise,
}


def seeded_generator(seed: int, purpose: str) -> torch.Generator:
    """Return a generator whose stream depends on the seed and the purpose."""
    # Hashed, so that neighbouring seeds and the two purposes give unrelated streams.
    digest = hashlib.sha256(f"{purpose}/{seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big"))


def fresh_seed() -> int:
    """Return a seed from the operating system."""
    return secrets.randbits(63)
