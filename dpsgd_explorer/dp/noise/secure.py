"""Unpredictable Gaussian noise whose floating-point bits do not reveal the clipped sum.

Source: Box and Muller (1958), "A Note on the Generation of Random Normal Deviates":
with U uniform on (0, 1) and the angle t uniform on the circle,
sqrt(-2 ln U) (cos t, sin t) are two independent normal numbers.  U takes 62 bits or
more, so that the tails reach sqrt(2 * 63 ln 2) = 9.35 standard deviations; t takes 32.

Floating point: the set of float32 values that ``sum + noise`` can take depends on the
sum and would reveal it (Mironov, 2012, "On Significance of the Least Significant Bits
for Differential Privacy").  Therefore the exact 48-bit product of radius and cosine is
added to the sum, and the result is rounded once, to a multiple of about 2^-12 standard
deviations.  Rounding is post-processing.  Each multiple is the result of many different
products, so the gaps between products are not visible.  Rounding increases the variance
by a factor of at most 1 + 2^-27.  Processors with a fused multiply-add compute this in
float32; on other processors the sum is computed in float64, where the product is exact.

The privacy analysis idealizes three roundings:

- Radius and cosine are exact to 2^-22.  The probability of a result therefore has a
  relative error of 2^-22, except for a total probability of about 1e-7 close to zero.
- Norms are never rounded down (``backends.rounding``), so a clipped gradient exceeds C
  by at most a dozen roundings, of its factor and of the products with it.
  ``ROUNDING_MARGIN``, 16 roundings, increases the noise to cover them.
- One more sample changes how the other samples' sum is rounded.  This is not covered:
  it moves each entry by a few units in the last place of the sum, which is at most B C
  (for B = 256 and C = 1, by 2^-16, while the noise is about 1).

On a CUDA device the bits come from ChaCha20 (``backends.triton.noise``), and the
Box-Muller transform is applied to them.
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

#: Grid step of the results, divided by the largest power of two that is at most the
#: standard deviation: coarse enough to hide the gaps between products (see above).
GRID_RATIO = 2.0**-12

#: Factor of the standard deviation that covers the roundings of a clipped gradient: 16
#: times the relative rounding error of float32, 2^-24.
ROUNDING_MARGIN = 1 + 2.0**-20

#: Maximum number of pairs of normal numbers per call: enough that the overhead of a
#: call is negligible.
MAX_PAIRS = 2**16

#: Random bytes per pair: 8 for U and 4 for t.
PAIR_BYTES = 12

#: Maximum number of buffers of random bits, one per size.  A sum needs two sizes, for
#: its chunks and for the last chunk; counts and canaries need one or two more.
MAX_BUFFERS = 4


class SecureNoise:
    """Noise from a secret key of the operating system: private, and not repeatable."""

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
        """Number of keys taken so far: 1, plus 1 per resume."""
        return self._stream.keys

    def add_to(
        self, values: Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> Tensor | float:
        """Adds independent N(0, standard_deviation^2) noise to values and divides them.

        Args:
            values: Values [P], float32 or float64, changed in place.  Noisy values are
                rounded to the grid before the division.
            standard_deviation: Standard deviation of the noise on each value, above 0.
            divisor: Public constant that divides the noisy values.

        Returns:
            Squared norm of the values before noise.  Not private.
        """
        scale = ROUNDING_MARGIN * math.sqrt(2) * standard_deviation
        shift = grid_shift(standard_deviation, values.dtype)
        backend = backend_of(values)
        if backend.draws_noise(values):
            device_square = torch.dot(values, values)
            if self._on_device is None:
                self._on_device = backend.noise_source()
            self._on_device.add_normals(values, scale, shift)
            values.div_(divisor)
            return device_square
        fits = values.numel() <= 2 * MAX_PAIRS
        square = 0.0
        for chunk in (values,) if fits else torch.split(values, 2 * MAX_PAIRS):
            bits = self._fresh_bits(chunk.numel())
            square += backend.add_normals(
                chunk, bits, scale, shift, divisor, self._by_torch
            )
        return square

    def state(self) -> Tensor:
        """Returns an empty state, uint8 [0], because a key is never saved."""
        return self._stream.get_state()

    def restore(self, state: Tensor) -> None:
        """Continues with new keys."""
        self._stream.set_state(state)
        self._on_device = None

    def _fresh_bits(self, size: int) -> Tensor:
        """Returns random bits for ``size`` normal numbers, uint8 [12 ceil(size / 2)].

        The next call overwrites them.
        """
        count = PAIR_BYTES * ((size + 1) // 2)
        if count not in self._buffers:
            if len(self._buffers) == MAX_BUFFERS:
                self._buffers = {}
            buffer = torch.empty(count, dtype=torch.uint8)
            self._buffers[count] = buffer, memory_of(buffer)
        bits, memory = self._buffers[count]
        self._stream.fill(memory)
        return bits


@lru_cache(maxsize=8)
def grid_shift(standard_deviation: float, dtype: torch.dtype) -> float:
    """Returns the number whose addition and subtraction round a value to the grid.

    Consecutive floats near 1.5 / eps grid steps differ by one grid step.  The factor
    1.5 keeps the sum in this range for negative values too.
    """
    step = GRID_RATIO * 2.0 ** math.floor(math.log2(standard_deviation))
    return 1.5 * step / torch.finfo(dtype).eps
