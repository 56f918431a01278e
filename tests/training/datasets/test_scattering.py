"""The fast transform against its definition, computed in space in float64."""

import json
import math
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from dpsgd_explorer.training.datasets import scattering
from dpsgd_explorer.training.datasets.registry import load
from dpsgd_explorer.training.datasets.scattering import (
    CHANNELS,
    CHUNK_PICTURES,
    GROUPS,
    Bank,
    Scattering,
)

ROOT = Path(__file__).resolve().parents[3]
IN_THE_BROWSER = """
import {Scattering} from "%s/static/js/runs/model/scattering.js";
import {readFileSync} from "node:fs";
const scattering = new Scattering(28);
const pictures = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(pictures.map((p) => [...scattering.features(p)])));
"""
SIDE, PAD = 28, 4
GRID = SIDE + 2 * PAD
ANGLES = [k * math.pi / 4 for k in range(4)]
SCATTERING = Scattering(SIDE)


def plane():
    """Coordinates over 9 periods of the grid, the middle one around the origin."""
    place = torch.arange(-4 * GRID, 5 * GRID, dtype=torch.float64)
    return place[:, None], place[None, :]


def periodic(function):
    """Sum a function over all periods: [9 GRID, 9 GRID] -> [GRID, GRID]."""
    return function.reshape(9, GRID, 9, GRID).sum(dim=(0, 2))


def gaussian(sigma):
    y, x = plane()
    return torch.exp(-(x**2 + y**2) / (2 * sigma**2)) / (2 * math.pi * sigma**2)


def morlet(scale, angle):
    """A wave of frequency 3π/4 / 2^scale under a Gaussian of σ = 0.8 · 2^scale."""
    y, x = plane()
    along = x * math.cos(angle) + y * math.sin(angle)
    envelope = gaussian(0.8 * 2**scale)
    phase = 0.75 * math.pi / 2**scale * along
    wave = torch.polar(envelope, phase)
    return periodic(wave - wave.sum() / envelope.sum() * envelope)


def circular_convolution(maps, kernel):
    """Sum over s of maps[s] kernel[t - s], written as a sum over shifts of the maps.

    Shapes: maps [..., S, S], kernel [S, S].
    """
    size = maps.shape[-1]
    place = torch.arange(size)
    total = torch.zeros(maps.shape, dtype=kernel.dtype)
    for dy in range(size):
        rows = maps[..., (place - dy) % size, :]
        for dx in range(size):
            total += rows[..., (place - dx) % size] * kernel[dy, dx]
    return total


def blurred(maps, step):
    """Average with φ and read inside the padding; maps hold every step-th pixel."""
    phi = periodic(gaussian(1.6))[::step, ::step] * step**2
    inside = slice(PAD // step, (PAD + SIDE) // step, 4 // step)
    return circular_convolution(maps, phi).real[..., inside, inside]


def defined(pictures):
    """S x by its definition: [B, 28, 28] -> [B, 25, 7, 7]."""
    padded = F.pad(pictures[:, None], (PAD,) * 4, mode="reflect")[:, 0]
    fine = [circular_convolution(padded, morlet(0, a)).abs() for a in ANGLES]
    coarse = [circular_convolution(padded, morlet(1, a)).abs() for a in ANGLES]
    second = [
        circular_convolution(first, morlet(1, angle)).abs()
        for first in fine
        for angle in ANGLES
    ]
    return torch.stack(
        [
            blurred(padded, 1),
            *(blurred(maps, 1) for maps in fine),
            *(blurred(maps[:, ::2, ::2], 2) for maps in coarse + second),
        ],
        dim=1,
    )


@pytest.fixture(scope="module")
def digits():
    return load("mnist")[1].inputs[:300]


def test_channels_are_those_of_the_definition(digits):
    noise = torch.rand(1, SIDE, SIDE, generator=torch.Generator().manual_seed(3))
    pictures = torch.cat([digits[:1, 0], noise]).double()
    torch.testing.assert_close(
        Scattering(SIDE, torch.float64).channels(pictures), defined(pictures)
    )


def test_float32_is_as_good_as_float64_up_to_rounding(digits):
    exact = Scattering(SIDE, torch.float64).channels(digits[:20, 0].double())
    quick = SCATTERING.channels(digits[:20, 0])
    torch.testing.assert_close(quick.double(), exact, atol=2e-6, rtol=1e-5)


def test_features_are_the_channels_normalised_in_groups(digits):
    channels = SCATTERING.channels(digits[:CHUNK_PICTURES, 0])
    groups = channels.reshape(CHUNK_PICTURES, GROUPS, -1)
    centred = groups - groups.mean(dim=2, keepdim=True)
    variance = centred.square().mean(dim=2, keepdim=True)
    expected = (centred / (variance + 1e-5).sqrt()).reshape(CHUNK_PICTURES, -1)
    torch.testing.assert_close(
        SCATTERING(digits[:CHUNK_PICTURES]), expected, atol=1e-4, rtol=1e-4
    )
    assert SCATTERING.features == expected.shape[1] == CHANNELS * 49


def test_wavelets_have_mean_zero_so_a_flat_picture_is_its_grey_level():
    channels = SCATTERING.channels(torch.full((1, SIDE, SIDE), 0.4))
    torch.testing.assert_close(channels[0, 0], torch.full((7, 7), 0.4))
    assert float(channels[0, 1:].abs().max()) < 1e-6


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_two_pictures_are_not_moved_apart_and_one_gains_no_energy(share):
    """‖S x - S y‖² ≤ ‖x - y‖², y = 0 too; a channel's value is of 4 by 4 pixels."""
    generator = torch.Generator().manual_seed(6)
    one, two = torch.rand(2, 50, SIDE, SIDE, generator=generator) - 0.5
    two *= share
    apart = F.pad((one - two)[:, None], (PAD,) * 4, mode="reflect")
    moved = SCATTERING.channels(one) - SCATTERING.channels(two)
    energy = 16 * moved.square().sum(dim=(1, 2, 3))
    assert bool((energy <= apart.square().sum(dim=(1, 2, 3))).all())


def test_a_shift_by_one_pixel_moves_features_less_than_pixels(digits):
    shifted = digits.roll(1, dims=3)
    change = (SCATTERING(shifted) - SCATTERING(digits)).norm() / SCATTERING(
        digits
    ).norm()
    pixels = (shifted - digits).norm() / digits.norm()
    assert float(change) < 0.6 * float(pixels)


def test_turning_a_picture_turns_its_orientations(digits):
    """A quarter turn takes waves along x to waves along y and back."""
    upright = SCATTERING.channels(digits[:9, 0])
    turned = SCATTERING.channels(digits[:9, 0].transpose(1, 2)).transpose(2, 3)
    swapped = [0, 3, 2, 1, 4, 7, 6, 5, 8]
    torch.testing.assert_close(turned[:, :9], upright[:, swapped], atol=1e-6, rtol=1e-5)


def test_a_pictures_bits_do_not_depend_on_its_company(digits):
    features = SCATTERING(digits)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(8))
    assert torch.equal(SCATTERING(digits[order]), features[order])
    for index in ([7], list(range(5, 5 + CHUNK_PICTURES + 1)), [299, 0]):
        assert torch.equal(SCATTERING(digits[index]), features[index])


def test_no_picture_gives_no_features():
    assert SCATTERING(torch.zeros(0, 1, SIDE, SIDE)).shape == (0, SCATTERING.features)


def filters(scattering):
    """Every matrix that the transform multiplies by, with its name."""
    for name, part in vars(scattering).items():
        if isinstance(part, Bank):
            yield from ((f"{name}.{key}", matrix) for key, matrix in vars(part).items())
        elif isinstance(part, torch.Tensor):
            yield name, part


@pytest.mark.parametrize("side", [8, 28, 32])
def test_no_filter_holds_a_number_that_processors_multiply_slowly(side):
    """Subnormal numbers are multiplied by microcode, and so are their products."""
    matrices = dict(filters(Scattering(side)))
    assert len(matrices) == 3 + 3 * 4
    least_normal = torch.finfo(torch.float32).tiny
    for name, matrix in matrices.items():
        least = matrix[matrix != 0].abs().min()
        assert least**2 > least_normal, f"{name} holds {least:.1e}"


def test_dropping_the_filters_tails_keeps_the_bits_of_the_features(digits, monkeypatch):
    monkeypatch.setattr(scattering, "MIN_FILTER_ENTRY", 0.0)
    assert torch.equal(Scattering(SIDE)(digits), SCATTERING(digits))


def test_the_page_computes_the_same_features():
    _, test = load("mnist")
    pictures = torch.cat([test.inputs[:3], torch.zeros(1, 1, 28, 28)])
    pictures[2, 0, :, :5] = 0.5  # ink at the border
    run = subprocess.run(
        ["node", "--input-type=module", "-e", IN_THE_BROWSER % ROOT],
        input=json.dumps(pictures.flatten(1).tolist()),
        capture_output=True,
        text=True,
        check=True,
    )
    exact = Scattering(28, dtype=torch.float64)(pictures)
    assert torch.allclose(
        torch.tensor(json.loads(run.stdout)), exact.float(), atol=1e-5
    )
