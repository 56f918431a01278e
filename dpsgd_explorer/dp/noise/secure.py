"""Gaussian noise that is unpredictable, and whose floating point hides the true sum.

Source: Box and Muller (1958), "A Note on the Generation of Random Normal Deviates":
with U uniform on (0, 1] and the angle t uniform on the circle,
sqrt(-2 ln U) (cos t, sin t) are two independent normal numbers.  U takes 63 bits, so
that the tails reach sqrt(2 * 63 ln 2) = 9.35 standard deviations; t takes 32.

Floating point.  Which float32 numbers ``sum + noise`` can reach depends on the sum
(Mironov, 2012, "On Significance of the Least Significant Bits for Differential
Privacy").  Therefore the product of radius and cosine, of 48 bits, is added without
being rounded first, and the sum is rounded to multiples of about 2^-12 standard
deviations.  Rounding is post-processing; so many products fall on each multiple that
their gaps are not visible.  The cost: the variance grows by a factor of at most
1 + 2^-27.  A processor that multiplies and adds with one rounding computes this in
float32; elsewhere the sum is computed in float64, where the product is exact.

Idealised: logarithm, root and cosine are exact to 2^-23, and so is the
probability of a result, up to a total of about 1e-7 close to zero.  Norms are never too
short (``layers.round_off``), so a clipped gradient exceeds C by at most a dozen
roundings, of its factor and of the products with it; noise larger by ``MARGIN``, 16
roundings, covers them.  Not counted is how one more sample changes the rounding of the
others' sum: in each entry by a few units in the last place of the sum, which is B C at
most (at B = 256 and C = 1: 2^-16, against noise of about 1).
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import torch
from torch import Tensor

from dpsgd_explorer.dp.noise.aes_stream import KeyStream

#: Spacing of the results over the power of two below the standard deviation.
GRID = 2.0**-12

#: Factor of the noise that covers the roundings of a clipped gradient.
MARGIN = 1 + 2.0**-20

#: Most pairs drawn per call: enough that the cost of a call is negligible.
PAIRS = 2**16

_TOP = torch.tensor(2.0**63)
_TURN = torch.tensor(math.pi * 2.0**-31)


class SecureNoise:
    """Noise from a key of the operating system: private, and not repeatable."""

    note = "from AES in counter mode, its key from the operating system and not kept"
    repeatable = False

    def __init__(self) -> None:
        self._stream = KeyStream()
        self._scratch: dict[tuple[int, torch.device], Scratch] = {}

    @property
    def keys(self) -> int:
        """Number of keys taken so far: one, and one more per resume."""
        return self._stream.keys

    def add_to(self, values: Tensor, standard_deviation: float) -> None:
        """Add independent N(0, standard_deviation^2) to every entry of [P].

        Args:
            values: float32 or float64; rounded to the grid afterwards.
            standard_deviation: Above 0.
        """
        scale = MARGIN * math.sqrt(2) * standard_deviation
        fits = len(values) <= 2 * PAIRS
        for piece in (values,) if fits else torch.split(values, 2 * PAIRS):
            scratch = self._scratch_for(piece)
            self._stream.fill(scratch.bits)
            add_products(piece, *scratch.box_muller(), scale)
            round_to_grid(piece, standard_deviation)

    def state(self) -> Tensor:
        """Return uint8 [0]: a key is never saved."""
        return self._stream.get_state()

    def restore(self, state: Tensor) -> None:
        """Continue with a new key."""
        self._stream.set_state(state)

    def _scratch_for(self, piece: Tensor) -> Scratch:
        """Return buffers, reused: a sum has pieces of one size, and a last one."""
        key = (len(piece), piece.device)
        if key not in self._scratch:
            self._scratch[key] = Scratch(*key)
        return self._scratch[key]


class Scratch:
    """Buffers for ``size`` normal numbers, n = ceil(size / 2) pairs.

    Attributes:
        bits: Random bits, uint8 [12 n]: n int64 for U, then n int32 for the angle.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        n = (size + 1) // 2
        self.bits = torch.empty(12 * n, dtype=torch.uint8)
        self._long_bits = self.bits[: 8 * n].view(torch.int64)
        self._short_bits = self.bits[8 * n :].view(torch.int32)
        self._radii = torch.empty(n, device=device)
        self._waves = torch.empty(2, n, device=device)
        self._cosines, self._angles = self._waves

    def box_muller(self) -> tuple[Tensor, Tensor]:
        """Return sqrt(-ln U), [n], and cosines and sines, [2, n], in float32."""
        radii, angles = self._radii, self._angles
        radii.copy_(self._long_bits).abs_()
        torch.div(_TOP, radii, out=radii)  # 1 / U
        radii.log_().sqrt_()
        torch.mul(self._short_bits, _TURN, out=angles)
        torch.cos(angles, out=self._cosines)
        angles.sin_()
        return radii, self._waves


def add_products(values: Tensor, radii: Tensor, waves: Tensor, scale: float) -> None:
    """Add scale * radii * waves to the values, the exact sum rounded once.

    Args:
        values: [P], float32 or float64.
        radii: float32 [n], n = ceil(P / 2).
        waves: float32 [2, n].
        scale: Factor of the radii, which are rounded after it.
    """
    if values.dtype is not torch.float64 and not rounds_once(values.device.type):
        wide = values.double()
        add_products(wide, radii, waves, scale)
        values.copy_(wide)
    elif len(values) == waves.numel():
        values.view_as(waves).addcmul_(radii, waves, value=scale)
    else:  # the last pair gives one number
        half, rest = len(radii), len(values) - len(radii)
        values[:half].addcmul_(radii, waves[0], value=scale)
        values[half:].addcmul_(radii[:rest], waves[1, :rest], value=scale)


@cache
def rounds_once(device: str) -> bool:
    """Whether float32 ``addcmul_`` rounds the sum and not the product before it.

    (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24; a product rounded first loses the last term.
    67 entries fill the vectors of a processor and leave a remainder, which may be
    computed by other instructions.
    """
    if device != "cpu":
        return False
    factors = torch.full((67,), 1 + 2.0**-12)
    sums = torch.full_like(factors, -2 * (1 + 2.0**-11))
    sums.addcmul_(factors, factors, value=2.0)
    return bool((sums == 2.0**-23).all())


def round_to_grid(values: Tensor, standard_deviation: float) -> None:
    """Round to multiples of GRID times the power of two below the deviation.

    At 1.5 / eps grid steps floats are one grid step apart, so adding that number rounds
    to whole steps; subtracting it again is exact.  Entries so large that their
    floating-point spacing is wider keep that spacing.
    """
    shift = _shift(standard_deviation, values.dtype)
    values.add_(shift).sub_(shift)


@lru_cache(maxsize=8)
def _shift(standard_deviation: float, dtype: torch.dtype) -> Tensor:
    """Return 1.5 / eps grid steps, as a tensor: torch is slower with a float."""
    step = GRID * 2.0 ** math.floor(math.log2(standard_deviation))
    return torch.tensor(1.5 * step / torch.finfo(dtype).eps, dtype=dtype)
