"""Box-Muller by torch: of random bits normal numbers, added and rounded to a grid.

The transform, its source and what is idealised are described in ``noise.secure``.
Where a compiler was found, ``native.box_muller`` computes the same in one pass.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import torch
from torch import Tensor

_TOP = torch.tensor(2.0**63)
_TURN = torch.tensor(math.pi * 2.0**-31)


class BoxMuller:
    """Adds normal numbers by torch's operations, in buffers that are used again.

    One object serves one caller at a time: torch lets another thread run while it
    computes.
    """

    def __init__(self) -> None:
        self._scratch: dict[tuple[int, torch.device], Scratch] = {}

    def add_normals(
        self,
        values: Tensor,
        bits: Tensor,
        scale: float,
        shift: float,
        divisor: float = 1.0,
    ) -> float:
        """Add scale * sqrt(-ln U) (cos t, sin t), cosines to the first half; divide.

        Args:
            values: float32 or float64 [P].
            bits: uint8 [12 n] on the CPU, n = ceil(P / 2): n int64 for U, then n int32
                for t.
            scale: Factor of the radii, which are rounded after it.
            shift: 1.5 / eps steps of the grid.
            divisor: Of the sums on the grid.

        Returns:
            The squared norm of the values before.
        """
        square = float(torch.dot(values, values))
        # A sum has pieces of one size, and a last one.
        key = (len(values), values.device)
        if key not in self._scratch:
            self._scratch[key] = Scratch(*key)
        add_products(values, *self._scratch[key].box_muller(bits), scale)
        round_to_grid(values, shift)
        values.div_(divisor)
        return square


class Scratch:
    """Buffers for ``size`` normal numbers, n = ceil(size / 2) pairs."""

    def __init__(self, size: int, device: torch.device) -> None:
        n = (size + 1) // 2
        self._radii = torch.empty(n, device=device)
        self._waves = torch.empty(2, n, device=device)
        self._cosines, self._angles = self._waves

    def box_muller(self, bits: Tensor) -> tuple[Tensor, Tensor]:
        """Return sqrt(-ln U), [n], and cosines and sines, [2, n], in float32."""
        radii, angles = self._radii, self._angles
        bits = bits.to(radii.device)
        cut = 8 * len(radii)
        radii.copy_(bits[:cut].view(torch.int64)).abs_()
        torch.div(_TOP, radii, out=radii)  # 1 / U
        radii.log_().sqrt_()
        torch.mul(bits[cut:].view(torch.int32), _TURN, out=angles)
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


def round_to_grid(values: Tensor, shift: float) -> None:
    """Round to the grid whose step is eps / 1.5 of the shift.

    At the shift, floats are one grid step apart, so adding that number rounds to whole
    steps; subtracting it again is exact.  Entries so large that their floating-point
    spacing is wider keep that spacing.
    """
    number = _as_tensor(shift, values.dtype)
    values.add_(number).sub_(number)


@lru_cache(maxsize=8)
def _as_tensor(number: float, dtype: torch.dtype) -> Tensor:
    """Return a number as a tensor: torch is slower with a float."""
    return torch.tensor(number, dtype=dtype)
