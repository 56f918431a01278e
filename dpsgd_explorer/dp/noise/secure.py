"""Gaussian noise that is unpredictable, and whose floating point hides the true sum.

Source: Box and Muller (1958), "A Note on the Generation of Random Normal Deviates":
with U uniform on (0, 1) and the angle t uniform on the circle,
sqrt(-2 ln U) (cos t, sin t) are two independent normal numbers.  U takes 62 bits or
more, so that the tails reach sqrt(2 * 63 ln 2) = 9.35 standard deviations; t takes 32.

Floating point.  Which float32 numbers ``sum + noise`` can reach depends on the sum
(Mironov, 2012, "On Significance of the Least Significant Bits for Differential
Privacy").  Therefore the product of radius and cosine, of 48 bits, is added without
being rounded first, and the sum is rounded to multiples of about 2^-12 standard
deviations.  Rounding is post-processing; so many products fall on each multiple that
their gaps are not visible.  The cost: the variance grows by a factor of at most
1 + 2^-27.  A processor that multiplies and adds with one rounding computes this in
float32; elsewhere the sum is computed in float64, where the product is exact.

Idealised: radius and cosine are exact to 2^-22, and so is the probability of a result,
up to a total of about 1e-7 close to zero.  Norms are never too short
(``backends.rounding``), so a clipped gradient exceeds C by at most a dozen roundings,
of its factor and of the products with it; noise larger by ``MARGIN``, 16 roundings,
covers them.  Not counted is how one more sample changes the rounding of the others'
sum: in each entry by a few units in the last place of the sum, which is B C at most (at
B = 256 and C = 1: 2^-16, against noise of about 1).

On a CUDA device the bits come from ChaCha20 (``backends.triton.noise``); the same
transform turns them into numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.box_muller import BoxMuller
from dpsgd_explorer.dp.backends.torch import NoiseSource
from dpsgd_explorer.dp.noise.aes_stream import KeyStream, memory_of

#: Spacing of the results over the power of two below the standard deviation.
GRID = 2.0**-12

#: Factor of the noise that covers the roundings of a clipped gradient.
MARGIN = 1 + 2.0**-20

#: Most pairs drawn per call: enough that the cost of a call is negligible.
PAIRS = 2**16

#: Random bytes of a pair: 8 for U and 4 for t.
PAIR_BYTES = 12


class SecureNoise:
    """Noise from a key of the operating system: private, and not repeatable."""

    note = (
        "from a stream cipher (AES, on an accelerator ChaCha20); its key comes from "
        "the operating system and is not stored"
    )
    repeatable = False

    def __init__(self) -> None:
        self._stream = KeyStream()
        self._by_torch = BoxMuller()
        self._on_device: NoiseSource | None = None
        self._buffers: dict[int, tuple[Tensor, memoryview]] = {}

    @property
    def keys(self) -> int:
        """Number of keys taken so far: one, and one more per resume."""
        return self._stream.keys

    def add_to(
        self, values: Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> Tensor | float:
        """Add independent N(0, standard_deviation^2) to every entry of [P], and divide.

        Args:
            values: float32 or float64; rounded to the grid before the division.
            standard_deviation: Above 0.
            divisor: A public constant.

        Returns:
            The squared norm of the values before.  Not private.
        """
        scale = MARGIN * math.sqrt(2) * standard_deviation
        shift = grid_shift(standard_deviation, values.dtype)
        backend = backend_of(values)
        if backend.draws_noise(values):
            square = torch.dot(values, values)
            if self._on_device is None:
                self._on_device = backend.noise_source()
            self._on_device.add_normals(values, scale, shift)
            values.div_(divisor)
            return square
        fits = values.numel() <= 2 * PAIRS
        total = 0.0
        for piece in (values,) if fits else torch.split(values, 2 * PAIRS):
            bits = self._fresh_bits(piece.numel())
            total += backend.add_normals(
                piece, bits, scale, shift, divisor, self._by_torch
            )
        return total

    def state(self) -> Tensor:
        """Return uint8 [0]: a key is never saved."""
        return self._stream.get_state()

    def restore(self, state: Tensor) -> None:
        """Continue with new keys."""
        self._stream.set_state(state)
        self._on_device = None

    def _fresh_bits(self, size: int) -> Tensor:
        """Return random bits for ``size`` numbers, uint8 [12 ceil(size / 2)]."""
        count = PAIR_BYTES * ((size + 1) // 2)
        if count not in self._buffers:
            # A sum has pieces of one size and a last one; counts and canaries others.
            if len(self._buffers) == 4:
                self._buffers = {}
            buffer = torch.empty(count, dtype=torch.uint8)
            self._buffers[count] = buffer, memory_of(buffer)
        bits, memory = self._buffers[count]
        self._stream.fill(memory)
        return bits


@lru_cache(maxsize=8)
def grid_shift(standard_deviation: float, dtype: torch.dtype) -> float:
    """Return 1.5 / eps steps of the grid: GRID times the power of two below."""
    step = GRID * 2.0 ** math.floor(math.log2(standard_deviation))
    return 1.5 * step / torch.finfo(dtype).eps
