"""The two-dimensional scattering transform of small pictures: fixed, not learned.

    S x = ( x ⋆ φ,  |x ⋆ ψ| ⋆ φ,  ||x ⋆ ψ| ⋆ ψ'| ⋆ φ )  every 4 pixels

φ is a Gaussian.  ψ are Morlet wavelets at J = 2 scales and L = 4 orientations, and ψ'
is coarser than ψ.  The result has 1 + 8 + 16 channels of [H/4, H/4].  Pictures are
reflected at the border, ⋆ is a circular convolution on the padded grid, and the output
of a wavelet of scale 2^j is sampled every 2^j pixels.

The envelope g(u) g(v) of the wavelets is isotropic, so
    ψ(u, v) = c (e^{i(au + bv)} - β) g(u) g(v)
is a sum of products of one-dimensional functions.  x ⋆ ψ is then a few products with
circulant matrices, which is cheaper than FFTs for pictures of this size.

The features of a picture do not depend on other pictures, so they cost no privacy.

Source: Bruna and Mallat (2013), arXiv:1203.1513.  Tramèr and Boneh (2021),
arXiv:2011.11660v3, use the transform with a private linear layer, with L = 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

#: Number of scales, J.
SCALES = 2
#: Number of orientations, L: waves along x, a diagonal, y, and the other diagonal.
ORIENTATIONS = 4
CHANNELS = 1 + SCALES * ORIENTATIONS + ORIENTATIONS**2
#: Number of groups of channels that are normalized together.
GROUPS = 5
#: Pixels between two values of a channel.
STRIDE = 2**SCALES
#: Number of pictures per computation; the working set fits in cache.
CHUNK_PICTURES = 32
#: Frequency of the finest wavelet, in radians per pixel.
FREQUENCY = 3 * math.pi / 4
#: Standard deviation of the envelope of the finest wavelet, in pixels.
ENVELOPE_STD = 0.8
#: Filter entries with a smaller absolute value are set to 0; see ``_constant``.
MIN_FILTER_ENTRY = 1e-16
#: Version of the features, increased with every change of their values.
VERSION = 1
#: Order of the orientations after an exchange of x and y.
TRANSPOSED_ORDER = [2, 1, 0, 3]


class Scattering:
    """The scattering transform of square pictures whose side is a multiple of 4.

    The transform always processes ``CHUNK_PICTURES`` pictures, and pads the last chunk
    with blank pictures.  The bits of a picture's features therefore do not depend on
    the other pictures.

    Args:
        size: Height and width of a picture, H.
        dtype: Dtype of the computation and of the features.

    Attributes:
        side: Height and width of a channel, H / 4.
        features: Number of features of a picture.
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
        """Returns the normalized features of pictures.

        Shapes: [B, 1, H, H] -> [B, 25 (H/4)²].
        """
        count = pictures.shape[0]
        features = torch.empty(count, self.features, dtype=self.dtype)
        for start in range(0, count, CHUNK_PICTURES):
            chunk = pictures[start : start + CHUNK_PICTURES, 0].to(self.dtype)
            blank = CHUNK_PICTURES - chunk.shape[0]
            channels = self.channels(F.pad(chunk, (0, 0, 0, 0, 0, blank)))
            normalized = F.group_norm(channels, GROUPS).flatten(1)
            features[start : start + CHUNK_PICTURES] = normalized[
                : CHUNK_PICTURES - blank
            ]
        return features

    def channels(self, pictures: Tensor) -> Tensor:
        """Returns the channels S x before normalization.

        Second-order channels are ordered by the orientation of the first wavelet, then
        by the orientation of the second.  Shapes: [B, H, H] -> [B, 25, H/4, H/4].
        """
        batch = pictures.shape[0]
        fine = self._fine.moduli(pictures)  # [L, B, x, y]
        coarse = self._coarse.moduli(pictures)  # [L, B, x/2, y/2]
        second = self._second.moduli(fine.flatten(0, 1))[
            TRANSPOSED_ORDER
        ]  # [L, L B, y/2, x/2]
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
        """Exchanges x and y of channels: [L, B, x y] -> [B, L, y x]."""
        maps = blurred.view(*blurred.shape[:2], self.side, self.side)
        return maps.permute(1, 0, 3, 2).flatten(2)


@dataclass(frozen=True)
class Bank:
    """The four wavelets of one scale, as matrices that act along one axis each.

    Attributes:
        first: Matrix [S, 5 T] along the last axis: real and imaginary part of the
            wavelet along this axis; g; real and imaginary part of the diagonal wave.
        straight: Matrix [S, T] along the other axis: g.
        across: Matrix [S, 2 T] along the other axis: real and imaginary part of the
            wavelet along that axis.
        diagonal: Matrix [3 S, 4 T] along the other axis, from g and the two parts of
            the diagonal wave to the two parts of both diagonal wavelets.
    """

    first: Tensor
    straight: Tensor
    across: Tensor
    diagonal: Tensor

    @classmethod
    def build(cls, grid: int, scale: int, pad: Tensor, dtype: torch.dtype) -> Self:
        """Returns the wavelets of scale 2^``scale`` on a grid.

        Args:
            grid: Number of pixels of the padded grid along an axis.
            scale: Exponent of the scale.
            pad: Matrix [S, grid] that pads an axis of a map to the grid.
            dtype: Dtype of the matrices.
        """
        frequency, sigma = FREQUENCY / 2**scale, ENVELOPE_STD * 2**scale
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
        # Real and imaginary parts of (c + is)(c' + is') - mean g g' and of
        # (c - is)(c' + is') - mean g g'.
        rows = ([-mean * g, zero] * 2, [c, s, c, s], [-s, c, s, -c])
        diagonal = amount * torch.cat([torch.cat(row, 1) for row in rows])
        first = torch.cat([wavelet, g, c, s], 1)
        parts = (first, g, wavelet, diagonal)
        return cls(*(_constant(part, dtype) for part in parts))

    def moduli(self, maps: Tensor) -> Tensor:
        """Returns |maps ⋆ ψ| for the four wavelets, with exchanged axes.

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
    """Returns the matrix that pads an axis by reflection, ``STRIDE`` pixels per end.

    Shapes: [size, size + 2 STRIDE].
    """
    last = size - 1
    position = torch.arange(-STRIDE, size + STRIDE)
    return F.one_hot(last - (last - position.abs()).abs(), size).T.double()


def _constant(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns a filter matrix with negligible entries set to 0.

    The tails of the Gaussians, and squares and products with them, are subnormal
    numbers.  Many processors multiply subnormal numbers by microcode, ten times slower.
    The entries are far below the rounding of float32 sums: the features of all MNIST
    pictures keep their bits.
    """
    return torch.where(matrix.abs() < MIN_FILTER_ENTRY, 0.0, matrix).to(dtype)


def _wave(grid: int, sigma: float, frequency: float) -> Tensor:
    """Returns g(u) e^{i frequency u}, made periodic on the grid: complex [grid]."""
    position = torch.arange(-4 * grid, 4 * grid, dtype=torch.float64)
    envelope = torch.exp(-(position**2) / (2 * sigma**2))
    return torch.polar(envelope, frequency * position).view(8, grid).sum(dim=0)


def _mean(wave: Tensor, envelope: Tensor) -> float:
    """Returns the factor of the envelope that makes the mean of a wave zero."""
    return float(wave.real.sum() / envelope.real.sum())


def _along(wave: Tensor, pad: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Returns the matrices of ⋆ with a wave's real and imaginary parts.

    The result of ⋆ is sampled every ``stride`` pixels.
    Shapes: wave [grid], pad [S, grid] -> [S, grid / stride] twice.
    """
    position = torch.arange(len(wave))
    shifted = wave[position[::stride] - position[:, None]]  # [grid, T]: f(t - s)
    return pad @ shifted.real, pad @ shifted.imag


def _blur(grid: int, scale: int, pad: Tensor) -> Tensor:
    """Returns the matrix of ⋆ φ, sampled every ``STRIDE`` pixels inside the padding.

    Maps of scale 1 contain every other pixel, so their values have twice the weight.

    Shapes: pad [S, grid / 2^scale] -> [S², (H/4)²].
    """
    sigma = ENVELOPE_STD * 2 ** (SCALES - 1)
    matrix, _ = _along(_wave(grid, sigma, 0.0), torch.eye(grid).double(), STRIDE)
    axis = matrix[:: 2**scale, 1:-1] * 2**scale / math.sqrt(2 * math.pi * sigma**2)
    return torch.kron(pad @ axis, pad @ axis)
