"""Curves with corners: a step's privacy curve from above and from below.

δ(x), x = e^ε, is convex and falls.  Between points x_k it lies

- below its chords, and above the neighbouring chords, continued;
- so above its chords lowered by as much as they may be off.

A convex, falling curve that ends at 0 and has corners at x_k is that of a discrete
privacy loss with the values log x_k: q_k, the bend at x_k, is its probability without
the record, and x_k q_k that with it.

Notation: K corners, at losses an equal spacing apart.
"""

from __future__ import annotations

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyLoss
from dpsgd_explorer.accounting.exact.tolerances import MACHINE_EPSILON

TINY = 1e-300
STEEP = 0.3  # of a curve, by which it is not lowered in one go


def above(loss: PrivacyLoss, corners: Floats) -> tuple[Floats, float]:
    """Return a larger curve's discrete loss; [K] -> [K], ().

    Returns:
        Probabilities of the corners, and of an infinite loss.
    """
    curve = loss.deltas(corners)
    return _probabilities(corners, _slopes(corners, curve)), float(curve[-1])


def below(loss: PrivacyLoss, corners: Floats) -> Floats:
    """Return a smaller curve's discrete loss; [K] -> [K].

    Either both ends of a chord are lowered by what it may be off, or, where that would
    leave next to nothing, the left one to the next chord, continued.
    """
    from scipy.optimize import isotonic_regression  # takes 0.3 s

    curve = loss.deltas(corners)
    gaps = _gaps(loss, corners, curve)
    widths = np.diff(np.exp(corners), prepend=0.0)
    continued = curve[1:] - _slopes(corners, curve)[2:] * widths[1:]
    steep = gaps > STEEP * (curve[1:] - curve[-1])
    left = np.append(np.where(steep, curve[:-1] - continued, gaps), 0.0)
    right = np.insert(np.where(steep, 0.0, gaps), 0, 0.0)
    lowered = curve - np.maximum(left, right) - 4 * MACHINE_EPSILON * curve - curve[-1]
    lowered[np.append(lowered[1:] <= 0, True)] = 0.0  # reached before a corner
    lowered = np.maximum(lowered, 0.0)
    slopes = _slopes(corners, lowered, 1.0 - 4 * MACHINE_EPSILON - float(curve[-1]))
    # the largest convex curve below the points has the isotonic slopes
    slopes[:-1] = isotonic_regression(slopes[:-1], weights=widths).x
    return _probabilities(corners, slopes)


def _probabilities(corners: Floats, slopes: Floats) -> Floats:
    """Return those of the corners; round-off of 0 may be negative; [K], [K + 1]."""
    return np.asarray(np.exp(corners) * np.diff(slopes))


def _slopes(corners: Floats, curve: Floats, origin: float = 1.0) -> Floats:
    """Return the slopes before, between and behind the corners; [K] -> [K + 1].

    At x = 0, a loss of -infinity, the curve has the value origin.
    """
    rises = np.diff(curve, prepend=origin)
    return np.append(rises / np.diff(np.exp(corners), prepend=0.0), 0.0)


def _gaps(loss: PrivacyLoss, corners: Floats, curve: Floats) -> Floats:
    """Return a bound on chord less curve between neighbours; [K] -> [K - 1].

    In either half of it a chord is off by what it is off in the middle at most, and by
    what the half's own chord is off, which the neighbouring ones, continued, bound.
    """
    places = np.empty(2 * len(corners) - 1)
    places[::2], places[1::2] = corners, 0.5 * (corners[:-1] + corners[1:])
    fine = np.empty_like(places)
    fine[::2], fine[1::2] = curve, loss.deltas(places[1::2])
    bends = np.maximum(np.diff(_slopes(places, fine)), TINY)
    widths = np.diff(np.exp(places))
    halves = widths / (1 / bends[:-1] + 1 / bends[1:])
    share = widths[::2] / (widths[::2] + widths[1::2])
    middle = np.maximum(curve[:-1] + share * np.diff(curve) - fine[1::2], 0.0)
    return np.asarray(middle + np.maximum(halves[::2], halves[1::2]))
