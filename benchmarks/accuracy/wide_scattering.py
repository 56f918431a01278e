"""The scattering transform with any number of orientations, by FFT.

``dpsgd_explorer.training.datasets.scattering`` has four orientations, whose envelope is
isotropic.  With L orientations the envelope is an ellipse: it is 4 / L times as steep
across the wave as along it.  There are 1 + 2 L + L² channels of [H/4, H/4].

Source: Bruna and Mallat (2013), arXiv:1203.1513; Tramèr and Boneh (2021),
arXiv:2011.11660v3, with L = 8.
"""

from __future__ import annotations

import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from dpsgd_explorer.training.datasets.scattering import (
    ENVELOPE_STD,
    FREQUENCY,
    SCALES,
    STRIDE,
)

COPIES = range(-2, 3)
"""Copies of the grid, along an axis, that are summed up to a filter."""


class WideScattering:
    """The scattering transform of square pictures whose side is a multiple of 4.

    Args:
        size: Height and width of a picture, H.
        orientations: Number of orientations L.
    """

    def __init__(self, size: int, orientations: int = 8) -> None:
        grid = size + 2 * STRIDE
        self._fine, coarse = (
            _transform([_morlet(grid, j, i, orientations) for i in range(orientations)])
            for j in range(SCALES)
        )
        blur = _transform([_gabor(grid, SCALES - 1, 0, 0, 1)])[0]
        self._coarse, self._blur = coarse, blur
        self._blur_coarse = _folded(blur, 2) * 4

    def __call__(self, pictures: Tensor) -> Tensor:
        """Returns the channels; shapes: [B, H, H] -> [B, 1 + 2 L + L², H/4, H/4]."""
        padded = F.pad(pictures[:, None], [STRIDE] * 4, mode="reflect")
        picture = torch.fft.fft2(padded)  # [B, 1, x, y]
        fine = _modulus(picture * self._fine)  # [B, L, x, y]
        coarse = _modulus(_folded(picture * self._coarse, 2))  # [B, L, x/2, y/2]
        pairs = _modulus(_folded(fine[:, :, None] * self._coarse, 2))
        channels = [
            _folded(picture * self._blur, STRIDE),
            _folded(fine * self._blur, STRIDE),
            _folded(coarse * self._blur_coarse, STRIDE // 2),
            _folded(pairs.flatten(1, 2) * self._blur_coarse, STRIDE // 2),
        ]
        blurred: Tensor = torch.fft.ifft2(torch.cat(channels, 1)).real
        return blurred[..., 1:-1, 1:-1]


def _modulus(transformed: Tensor) -> Tensor:
    """Returns the transform of the absolute values of maps, from their transform."""
    moduli: Tensor = torch.fft.fft2(torch.fft.ifft2(transformed).abs())
    return moduli


def _folded(transformed: Tensor, step: int) -> Tensor:
    """Returns the transform of every ``step``-th pixel of maps, along both axes."""
    *lead, height, width = transformed.shape
    parts = transformed.view(*lead, step, height // step, step, width // step)
    return parts.mean((-4, -2))


def _transform(filters: list[Tensor]) -> Tensor:
    transformed: Tensor = torch.fft.fft2(torch.stack(filters))
    return transformed.to(torch.complex64)


def _morlet(grid: int, scale: int, index: int, orientations: int) -> Tensor:
    """Returns a Gabor filter minus a multiple of its envelope; its mean is 0."""
    angle, slant = math.pi * index / orientations, 4 / orientations
    wave = _gabor(grid, scale, angle, FREQUENCY / 2**scale, slant)
    envelope = _gabor(grid, scale, angle, 0, slant)
    return torch.sub(wave, wave.sum() / envelope.sum() * envelope)


def _gabor(
    grid: int, scale: int, angle: float, frequency: float, slant: float
) -> Tensor:
    """Returns a wave under a Gaussian, made periodic on the grid: complex [grid, grid].

    The Gaussian has standard deviation ``ENVELOPE_STD`` 2^scale along the wave, and
    this divided by ``slant`` across it.
    """
    sigma = ENVELOPE_STD * 2**scale
    axis = torch.arange(grid, dtype=torch.float64)
    total = torch.zeros(grid, grid, dtype=torch.complex128)
    for down, right in product(COPIES, COPIES):
        y, x = torch.meshgrid(axis + down * grid, axis + right * grid, indexing="ij")
        along = math.cos(angle) * x + math.sin(angle) * y
        across = math.cos(angle) * y - math.sin(angle) * x
        envelope = torch.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
        total += torch.polar(envelope, frequency * along)
    return torch.mul(total, slant / (2 * math.pi * sigma**2))
