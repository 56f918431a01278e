"""The two-dimensional scattering transform of small pictures: fixed, nothing learned.

    S x = ( x ⋆ φ,  |x ⋆ ψ| ⋆ φ,  ||x ⋆ ψ| ⋆ ψ'| ⋆ φ )  every 4 pixels

φ is a Gaussian, ψ are Morlet wavelets at J = 2 scales and L = 4 orientations, ψ' is
coarser than ψ: 1 + 8 + 16 channels of [H/4, H/4].  Pictures are reflected at the
border, ⋆ is circular on the padded grid, and what a wavelet of scale 2^j gives is read
every 2^j pixels.

With L = 4 the wavelet's envelope g(u) g(v) is round, so that
    ψ(u, v) = c (e^{i(au + bv)} - β) g(u) g(v)
is a sum of products of one-dimensional functions, and x ⋆ ψ a few products by
circulant matrices: on pictures this small, cheaper than by FFTs.

Nothing depends on other pictures or on the data, so the transform costs no privacy.

Source: Bruna and Mallat (2013), arXiv:1203.1513; in front of a private
linear layer: Tramèr and Boneh (2021), arXiv:2011.11660v3.  Differs: L = 4, not 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

SCALES = 2  # J
ORIENTATIONS = 4  # L: waves along x, along a diagonal, along y, along the other one
CHANNELS = 1 + SCALES * ORIENTATIONS + ORIENTATIONS**2
GROUPS = 5  # of channels that are normalised together
STRIDE = 2**SCALES  # pixels between two values of a channel
CHUNK = 32  # pictures computed at a time, always; the working set fits in cache
FREQUENCY = 3 * math.pi / 4  # of the finest wavelet, radians a pixel
WIDTH = 0.8  # σ of the finest wavelet, pixels
NEGLIGIBLE = 1e-16  # smaller filter entries become 0: see ``_constant``
VERSION = 1  # goes up with every change of the values

TURNED = [2, 1, 0, 3]  # the orientations after x and y changed places


class Scattering:
    """The transform of square pictures whose side is a multiple of 4.

    A picture's features have the same bits whatever pictures they are computed with:
    work is always done on ``CHUNK`` pictures, the last chunk filled up with blank ones.
    """

    name = f"scattering J={SCALES} L={ORIENTATIONS} version {VERSION}"

    def __init__(self, size: int, dtype: torch.dtype = torch.float32) -> None:
        self.dtype = dtype
        self.side = size // STRIDE
        self.features = CHANNELS * self.side**2
        grid = size + 2 * STRIDE
        pad, keep = reflection(size), torch.eye(grid, dtype=torch.float64)
        self._fine = Bank.build(grid, 0, pad, dtype)
        self._coarse = Bank.build(grid, 1, pad, dtype)
        self._second = Bank.build(grid, 1, keep, dtype)
        self._blur_picture = _constant(_blur(grid, 0, pad), dtype)
        self._blur_fine = _constant(_blur(grid, 0, keep), dtype)
        self._blur_coarse = _constant(_blur(grid, 1, keep[::2, ::2]), dtype)

    def __call__(self, pictures: Tensor) -> Tensor:
        """Return the normalised features of pictures.

        Shapes: [B, 1, H, H] -> [B, 25 (H/4)²].
        """
        count = pictures.shape[0]
        features = torch.empty(count, self.features, dtype=self.dtype)
        for start in range(0, count, CHUNK):
            chunk = pictures[start : start + CHUNK, 0].to(self.dtype)
            blank = CHUNK - chunk.shape[0]
            channels = self.channels(F.pad(chunk, (0, 0, 0, 0, 0, blank)))
            normalised = F.group_norm(channels, GROUPS).flatten(1)
            features[start : start + CHUNK] = normalised[: CHUNK - blank]
        return features

    def channels(self, pictures: Tensor) -> Tensor:
        """Return S x itself.

        Shapes: [B, H, H] -> [B, 25, H/4, H/4]; the second-order channels are ordered
        by the first wavelet's orientation, then by the second's.
        """
        batch = pictures.shape[0]
        fine = self._fine.moduli(pictures)  # [L, B, x, y]
        coarse = self._coarse.moduli(pictures)  # [L, B, x/2, y/2]
        second = self._second.moduli(fine.flatten(0, 1))[TURNED]  # [L, L B, y/2, x/2]
        blurred = second.flatten(2) @ self._blur_coarse  # [L, L B, y x]
        pairs = blurred.view(ORIENTATIONS, ORIENTATIONS, batch, -1).permute(2, 1, 0, 3)
        channels = torch.cat(
            [
                (pictures.flatten(1) @ self._blur_picture)[:, None],
                self._upright(fine.flatten(2) @ self._blur_fine),
                self._upright(coarse.flatten(2) @ self._blur_coarse),
                pairs.flatten(1, 2),
            ],
            dim=1,
        )
        return channels.view(batch, CHANNELS, self.side, self.side)

    def _upright(self, blurred: Tensor) -> Tensor:
        """Undo the change of places of the axes: [L, B, x y] -> [B, L, y x]."""
        maps = blurred.view(*blurred.shape[:2], self.side, self.side)
        return maps.permute(1, 0, 3, 2).flatten(2)


@dataclass(frozen=True)
class Bank:
    """The four wavelets of one scale as matrices that act along one axis each.

    Attributes:
        first: [S, 5 T] along the last axis: real and imaginary part of the wavelet
            that waves along it; g; real and imaginary part of the slanted wave.
        straight: [S, T] along the other axis: g.
        across: [S, 2 T] along the other axis: the wavelet that waves along it.
        diagonal: [3 S, 4 T] along the other axis, from g and the slanted wave's two
            parts to the two parts of either diagonal wavelet.
    """

    first: Tensor
    straight: Tensor
    across: Tensor
    diagonal: Tensor

    @classmethod
    def build(cls, grid: int, scale: int, pad: Tensor, dtype: torch.dtype) -> Self:
        """Return the wavelets of scale 2^``scale`` on a grid.

        Shapes: pad [S, grid], what brings one axis of a map onto the grid.
        """
        frequency, sigma = FREQUENCY / 2**scale, WIDTH * 2**scale
        envelope, straight, slanted = (
            _wave(grid, sigma, wave)
            for wave in (0.0, frequency, frequency / math.sqrt(2))
        )
        g, zero = _along(envelope, pad, 2**scale)
        cos, sin = _along(straight, pad, 2**scale)
        c, s = _along(slanted, pad, 2**scale)
        amount = 1 / (2 * math.pi * sigma**2)
        mean = _mean(slanted, envelope) ** 2
        wavelet = amount * torch.cat([cos - _mean(straight, envelope) * g, sin], 1)
        # (c + is)(c' + is') and (c - is)(c' + is') less the mean, as real and imaginary
        rows = ([-mean * g, zero] * 2, [c, s, c, s], [-s, c, s, -c])
        diagonal = amount * torch.cat([torch.cat(row, 1) for row in rows])
        first = torch.cat([wavelet, g, c, s], 1)
        parts = (first, g, wavelet, diagonal)
        return cls(*(_constant(part, dtype) for part in parts))

    def moduli(self, maps: Tensor) -> Tensor:
        """Return |maps ⋆ ψ| for the four wavelets; the two axes change places.

        Shapes: maps [M, S, S] -> [L, M, T, T].
        """
        count, side = maps.shape[:2]
        size = self.straight.shape[1]
        lines = (maps.reshape(-1, side) @ self.first).view(count, side, 5, size)
        lines = lines.permute(0, 3, 2, 1).reshape(count * size, 5 * side)
        real, imag, straight = lines[:, : 3 * side].chunk(3, dim=1)
        diagonal = (lines[:, 2 * side :] @ self.diagonal).chunk(4, dim=1)
        waves = (
            (real @ self.straight, imag @ self.straight),
            diagonal[:2],
            (straight @ self.across).chunk(2, dim=1),
            diagonal[2:],
        )
        moduli = maps.new_empty(ORIENTATIONS, count * size, size)
        for modulus, (real, imag) in zip(moduli, waves, strict=True):
            torch.add(real.square(), imag.square(), out=modulus)
        return moduli.sqrt_().view(ORIENTATIONS, count, size, size)


def reflection(size: int) -> Tensor:
    """Return indices that pad an axis by its mirror image, ``STRIDE`` pixels per end.

    Shapes: [size, size + 2 STRIDE].
    """
    last = size - 1
    place = torch.arange(-STRIDE, size + STRIDE)
    return F.one_hot(last - (last - place.abs()).abs(), size).T.double()


def _constant(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a filter matrix with its negligible entries set to 0.

    The tails of the Gaussians reach down to subnormal numbers, and so do the squares
    and products of what they give.  Many processors multiply those by microcode, ten
    times slower.  The entries dropped are far below the rounding of float32 sums: the
    features of all MNIST pictures keep their bits.
    """
    return torch.where(matrix.abs() < NEGLIGIBLE, 0.0, matrix).to(dtype)


def _wave(grid: int, sigma: float, frequency: float) -> Tensor:
    """Return g(u) e^{i frequency u} made periodic on the grid: complex [grid]."""
    place = torch.arange(-4 * grid, 4 * grid, dtype=torch.float64)
    envelope = torch.exp(-(place**2) / (2 * sigma**2))
    return torch.polar(envelope, frequency * place).view(8, grid).sum(dim=0)


def _mean(wave: Tensor, envelope: Tensor) -> float:
    """Return the share of the envelope that gives a wave the mean zero."""
    return float(wave.real.sum() / envelope.real.sum())


def _along(wave: Tensor, pad: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Return the matrices of ⋆ with the two parts, read every ``stride`` places.

    Shapes: wave [grid], pad [S, grid] -> [S, grid / stride] twice.
    """
    place = torch.arange(len(wave))
    shifted = wave[place[::stride] - place[:, None]]  # [grid, T]: f(t - s)
    return pad @ shifted.real, pad @ shifted.imag


def _blur(grid: int, scale: int, pad: Tensor) -> Tensor:
    """Return ⋆ φ, read every ``STRIDE`` pixels inside the padding, as one matrix.

    Maps of scale 1 are given every other pixel, so each value stands for two.

    Shapes: pad [S, grid / 2^scale] -> [S², (H/4)²].
    """
    sigma = WIDTH * 2 ** (SCALES - 1)
    matrix, _ = _along(_wave(grid, sigma, 0.0), torch.eye(grid).double(), STRIDE)
    axis = matrix[:: 2**scale, 1:-1] * 2**scale / math.sqrt(2 * math.pi * sigma**2)
    return torch.kron(pad @ axis, pad @ axis)
