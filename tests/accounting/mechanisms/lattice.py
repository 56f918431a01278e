"""δ of a mix of mechanisms from plain sums, written apart from the accountants.

Each step's output is integrated on an even grid of nodes.  A node's privacy loss is
shared by the two nearest points of a lattice of losses, so that its mean stays.  Sums
of losses are powers of Fourier transforms.  Twice the spacing shows the error.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

NODES = 200_001
POINTS = 1 << 18
#: Standard deviations of noise that the nodes cover.
REACH = 9.5


class Losses(NamedTuple):
    """Losses with probabilities under P, an infinite loss, and repetitions."""

    losses: np.ndarray
    masses: np.ndarray
    infinite: float
    count: int


def dp_sgd(rate, noise, steps, direction):
    z = np.linspace(-REACH * noise, 1 + REACH * noise, NODES)
    without, with_record = norm.pdf(z, 0, noise), norm.pdf(z, 1, noise)
    mixed = (1 - rate) * without + rate * with_record
    exponents = (2 * z - 1) / (2 * noise**2)
    loss = np.logaddexp(math.log1p(-rate), math.log(rate) + exponents)
    if direction == "remove":
        return Losses(loss, mixed * (z[1] - z[0]), 0.0, steps)
    return Losses(-loss, without * (z[1] - z[0]), 0.0, steps)


def gaussian(noise):
    z = np.linspace(1 - REACH * noise, 1 + REACH * noise, NODES)
    masses = norm.pdf(z, 1, noise) * (z[1] - z[0])
    return Losses((2 * z - 1) / (2 * noise**2), masses, 0.0, 1)


def laplace(largest, count):
    """Return the losses r - 2x/b between the ends, and both ends."""
    width = 2 * largest / NODES
    inside = -largest + width * (np.arange(NODES) + 0.5)
    masses = 0.25 * np.exp((inside - largest) / 2) * width
    losses = np.concatenate([[-largest, largest], inside])
    ends = [0.5 * math.exp(-largest), 0.5]
    return Losses(losses, np.concatenate([ends, masses]), 0.0, count)


def discrete_gaussian(scale, sensitivity, count):
    k = np.arange(-math.ceil(REACH * scale), math.ceil(REACH * scale) + 1)
    masses = np.exp(-(k**2) / (2 * scale**2))
    loss = (2 * k * sensitivity + sensitivity**2) / (2 * scale**2)
    return Losses(loss, masses / masses.sum(), 0.0, count)


def guarantee(epsilon, delta, count):
    likely = (1 - delta) / (1 + math.exp(-epsilon))
    losses = np.array([epsilon, -epsilon])
    return Losses(losses, np.array([likely, 1 - delta - likely]), delta, count)


def deltas(parts, epsilons):
    """Return δ at each ε, and the error that twice the spacing shows."""
    reach = 1.5 * max(epsilons) + 1
    while True:
        losses, masses = _sums(parts, reach, POINTS)
        beyond = masses[np.abs(losses) > 0.9 * reach].clip(min=0).sum()
        if beyond < 1e-13 or reach > 500:
            break
        reach *= 1.5
    found = np.array([_delta(parts, losses, masses, x) for x in epsilons])
    coarse = _sums(parts, reach, POINTS // 2)
    other = np.array([_delta(parts, *coarse, x) for x in epsilons])
    best = found + (found - other) / 3  # the error falls with the square
    return best, np.abs(best - found) + 1e-12


def _delta(parts, losses, masses, epsilon):
    hidden = math.prod((1 - x.infinite) ** x.count for x in parts)
    gains = -np.expm1(np.minimum(epsilon - losses, 0.0))
    return float(gains @ masses) + 1 - hidden


def _sums(parts, reach, points):
    """Return the losses of the sums from -reach to reach, and their probabilities."""
    spacing = 2 * reach / points
    total = np.ones(points // 2 + 1, dtype=complex)
    for part in parts:
        places = part.losses / spacing
        below = np.floor(places)
        share = places - below
        index = below.astype(int)
        row = np.bincount(index % points, part.masses * (1 - share), points)
        row += np.bincount((index + 1) % points, part.masses * share, points)
        total *= np.fft.rfft(row) ** part.count
    masses = np.roll(np.fft.irfft(total, points), points // 2)
    return spacing * (np.arange(points) - points // 2), masses
