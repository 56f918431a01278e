"""Gaussian noise that nobody can guess, repeat, or read the true value through.

Source: Box and Muller (1958), "A Note on the Generation of Random Normal Deviates":
with U uniform on (0, 1] and the angle t uniform on the circle,
sqrt(-2 ln U) (cos t, sin t) are two independent normal numbers.  U takes 63 bits, so
that the tails reach sqrt(2 * 63 ln 2) = 9.35 standard deviations; t takes 32.

Floating point.  Which float32 numbers ``sum + noise`` can reach depends on the sum
(Mironov, 2012, "On Significance of the Least Significant Bits for Differential
Privacy").  Therefore the two are added in float64 and the result is rounded to
multiples of about 2^-12 standard deviations.  Rounding is post-processing; each
multiple gathers so many products of radius and cosine that their gaps cannot be seen.
What it costs: the variance grows by a factor of at most 1 + 2^-27.

What is idealised: logarithm, root and cosine are right to 2^-23, and so is the
probability of a result, up to a total of about 1e-7 next to zero.  A clipped gradient
may exceed C by float32's rounding; noise larger by ``MARGIN`` makes up for it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dpsgd_explorer.dp.key_stream import KeyStream

GRID = 2.0**-12
"""Results are multiples of this, times the power of two below the deviation."""

MARGIN = 1 + 2.0**-20

PAIRS = 2**16
"""Pairs drawn at a time at most: large enough to make the calls cheap."""

_TOP = torch.tensor(2.0**63)


class SecureNoise:
    """Noise from a key of the operating system's; private, and not repeatable."""

    note = "from AES in counter mode, its key from the operating system and not kept"
    repeatable = False

    def __init__(self) -> None:
        self._stream = KeyStream()
        self._scratch: dict[tuple[int, torch.device], Scratch] = {}

    @property
    def keys(self) -> int:
        """Keys taken so far: one, and one more whenever a run was resumed."""
        return self._stream.keys

    @torch.inference_mode()
    def add_to(self, values: Tensor, standard_deviation: float) -> None:
        """Add independent N(0, standard_deviation^2) to every entry of [P].

        Args:
            values: float32 or float64; rounded to the grid afterwards.
            standard_deviation: Above 0.
        """
        scale = MARGIN * math.sqrt(2) * standard_deviation
        for piece in torch.split(values, 2 * PAIRS):
            scratch = self._scratch_for(piece)
            self._stream.fill(scratch.bits)
            radii, waves = scratch.box_muller()
            scratch.flat_sum.copy_(piece)
            scratch.sum.addcmul_(radii, waves, value=scale)
            piece.copy_(scratch.flat_sum)
            round_to_grid(piece, standard_deviation)

    def state(self) -> Tensor:
        """Return uint8 [0]: there is nothing that could be saved."""
        return self._stream.get_state()

    def restore(self, state: Tensor) -> None:
        """Go on with a fresh key."""
        self._stream.set_state(state)

    def _scratch_for(self, piece: Tensor) -> Scratch:
        """Return room that is kept: a sum comes in whole pieces and one rest."""
        key = (len(piece), piece.device)
        if key not in self._scratch:
            self._scratch[key] = Scratch(*key)
        return self._scratch[key]


class Scratch:
    """Room for ``size`` numbers, made of n = ceil(size / 2) pairs.

    Attributes:
        bits: uint8 [12 n] to be filled: n int64 for U, then n int32 for the angle.
        sum: float64 [2, n].
        flat_sum: Its first ``size`` entries.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        n = (size + 1) // 2
        self.bits = torch.empty(12 * n, dtype=torch.uint8)
        self._long_bits = self.bits[: 8 * n].view(torch.int64)
        self._short_bits = self.bits[8 * n :].view(torch.int32)
        self._radii, self._angles = torch.empty(2, n, device=device)
        self._narrow = torch.empty(2, n, device=device)
        self._wide_radii = self._radii.double()
        self._waves = self._narrow.double()
        self.sum = torch.empty_like(self._waves)
        self.flat_sum = self.sum.view(-1)[:size]

    def box_muller(self) -> tuple[Tensor, Tensor]:
        """Return sqrt(-ln U), [n], and cosines and sines, [2, n], in float64."""
        self._radii.copy_(self._long_bits).abs_()
        torch.div(_TOP, self._radii, out=self._radii)  # 1 / U
        self._wide_radii.copy_(self._radii.log_().sqrt_())
        self._angles.copy_(self._short_bits).mul_(math.pi * 2.0**-31)
        torch.cos(self._angles, out=self._narrow[0])
        torch.sin(self._angles, out=self._narrow[1])
        return self._wide_radii, self._waves.copy_(self._narrow)


def round_to_grid(values: Tensor, standard_deviation: float) -> None:
    """Round to multiples of GRID times the power of two below the deviation.

    Adding 1.5 / eps of them leaves no bit for less than one; taking it away again is
    exact.  Entries so large that their own spacing is wider keep that spacing.
    """
    step = GRID * 2.0 ** math.floor(math.log2(standard_deviation))
    shift = 1.5 * step / torch.finfo(values.dtype).eps
    values.add_(shift).sub_(shift)
