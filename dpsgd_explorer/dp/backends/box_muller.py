"""The Box-Muller transform in torch: adds normal noise from random bits to a sum.

``noise.secure`` describes the transform, its source and what it idealizes.  Where a C
library was compiled at install time, ``native.box_muller`` replaces this module: it
adds, rounds and divides in one pass.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import torch
from torch import Tensor

#: U is the magnitude of an int64 divided by this.
_U_SCALE = torch.tensor(2.0**63)
#: Radians per step of an angle of 32 bits.
_ANGLE_STEP = torch.tensor(math.pi * 2.0**-31)


class BoxMuller:
    """Adds normal numbers with torch's operations, and reuses its buffers.

    Threads must not share an object: torch lets another thread run while it computes,
    so a second caller could overwrite the buffers.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[int, torch.device], PairBuffers] = {}

    def add_normals(
        self,
        values: Tensor,
        bits: Tensor,
        scale: float,
        shift: float,
        divisor: float = 1.0,
    ) -> float:
        """Adds scale * sqrt(-ln U) (cos t, sin t), rounds to a grid and divides.

        Cosines are added to the first half of the values, and sines to the second.

        Args:
            values: float32 or float64 [P], overwritten.
            bits: uint8 [12 n] on the CPU, n = ceil(P / 2): n int64 for U, then n int32
                for t.
            scale: Factor of the radii.  Scaled radii are rounded before they are
                multiplied by a cosine or sine.
            shift: 1.5 / eps steps of the grid; see ``round_to_grid``.
            divisor: Divides the rounded values.

        Returns:
            The squared norm of the values before the noise.
        """
        square = float(torch.dot(values, values))
        # All chunks of a sum have one size, except the last: few buffers are needed.
        key = (len(values), values.device)
        if key not in self._buffers:
            self._buffers[key] = PairBuffers(*key)
        add_products(values, *self._buffers[key].radii_and_waves(bits), scale)
        round_to_grid(values, shift)
        values.div_(divisor)
        return square


class PairBuffers:
    """Buffers for n = ceil(size / 2) pairs of normal numbers."""

    def __init__(self, size: int, device: torch.device) -> None:
        n = (size + 1) // 2
        self._radii = torch.empty(n, device=device)
        self._waves = torch.empty(2, n, device=device)
        self._cosines, self._angles = self._waves

    def radii_and_waves(self, bits: Tensor) -> tuple[Tensor, Tensor]:
        """Returns sqrt(-ln U), [n], and cosines and sines, [2, n], in float32."""
        radii, angles = self._radii, self._angles
        bits = bits.to(radii.device)
        radius_bytes = 8 * len(radii)
        radii.copy_(bits[:radius_bytes].view(torch.int64)).abs_()
        torch.div(_U_SCALE, radii, out=radii)  # 1 / U
        radii.log_().sqrt_()
        torch.mul(bits[radius_bytes:].view(torch.int32), _ANGLE_STEP, out=angles)
        torch.cos(angles, out=self._cosines)
        angles.sin_()
        return radii, self._waves


def add_products(values: Tensor, radii: Tensor, waves: Tensor, scale: float) -> None:
    """Adds scale * radii * waves to the values; only the sums are rounded.

    A product that is rounded before it is added would show the sum beneath the noise;
    see ``noise.secure``.

    Args:
        values: [P], float32 or float64.
        radii: float32 [n], n = ceil(P / 2).
        waves: float32 [2, n].
        scale: Factor of the radii.  Scaled radii are rounded before they are multiplied
            by the waves.
    """
    if values.dtype is not torch.float64 and not rounds_once(values.device.type):
        doubles = values.double()
        add_products(doubles, radii, waves, scale)
        values.copy_(doubles)
    elif len(values) == waves.numel():
        values.view_as(waves).addcmul_(radii, waves, value=scale)
    else:  # P is odd: the sine of the last pair is not used.
        half, rest = len(radii), len(values) - len(radii)
        values[:half].addcmul_(radii, waves[0], value=scale)
        values[half:].addcmul_(radii[:rest], waves[1, :rest], value=scale)


@cache
def rounds_once(device: str) -> bool:
    """Returns True if float32 ``addcmul_`` rounds the sum only, not the product.

    (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24; if the product is rounded, the last term is lost.
    67 entries fill the vectors of a processor and leave a remainder, for which other
    instructions may be used.
    """
    if device != "cpu":
        return False
    factors = torch.full((67,), 1 + 2.0**-12)
    sums = torch.full_like(factors, -2 * (1 + 2.0**-11))
    sums.addcmul_(factors, factors, value=2.0)
    return bool((sums == 2.0**-23).all())


def round_to_grid(values: Tensor, shift: float) -> None:
    """Rounds to a grid whose step is eps / 1.5 of the shift, in place.

    The spacing of floats near the shift is one grid step, so adding the shift rounds to
    whole steps, and subtracting it is exact.  Entries so large that their
    floating-point spacing exceeds the grid step keep that spacing.
    """
    number = _as_tensor(shift, values.dtype)
    values.add_(number).sub_(number)


@lru_cache(maxsize=8)
def _as_tensor(number: float, dtype: torch.dtype) -> Tensor:
    """Returns a number as a tensor, which torch adds faster than a float."""
    return torch.tensor(number, dtype=dtype)
