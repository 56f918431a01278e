"""Where the lattice of discrete losses lies, and how its weights are tilted.

Notation: P phases, T rows (numbers of steps, or ε), J tilts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyLoss

TAIL = 1e-7  # of δ, that may lie beyond the corners, or be folded over
SOUND = (12.0, 18.0, 24.0)  # log of weighted sums over δ: the first that a tilt keeps
SPARE = 1.1  # width of a window with a larger tilt, over the narrowest
TRIED = 16  # tilts


@dataclass(frozen=True)
class Window:
    """Where the lattice lies.

    Attributes:
        tilt: c of the weights e^(cℓ).
        low: Losses of a composition below are folded over, if there are any.
        high: The same above.
        steps: At most, of a composition.
        spans: Where nearly all losses of a step lie, [P, 2].
    """

    tilt: float
    low: float
    high: float
    steps: int
    spans: Floats

    @property
    def width(self) -> float:
        return self.high - self.low


def chosen_window(
    losses: Sequence[PrivacyLoss],
    counts: Floats,
    delta: float,
    epsilons: Floats,
    tilts: Floats,
    cumulants: Floats,
) -> Window:
    """Return about the narrowest window that is wide enough for all rows.

    Shapes: counts [T, P], epsilons [T], tilts [J], cumulants [T, J].

    Under the tilt c, P(S >= b) <= e^(K(c') - K(c) - (c' - c) b) for c' > c, and
    likewise P(S <= a) for c' < c.  An error in the weighted sums is e^(K(c) - cε) / δ
    times as much of δ.

    Args:
        losses: Of one step of each phase.
        counts: Steps of each phase.
        delta: About what is asked for.
        epsilons: Not above which.
        tilts: Those that may be taken.
        cumulants: K of each row.
    """
    steps = int(counts.sum(axis=1).max())
    spans = np.array([loss.loss_range(TAIL * delta / steps) for loss in losses])
    low, high = (counts @ spans).T  # [T], [T]: the ends of the sums
    room = cumulants - np.outer(epsilons, tilts) - math.log(delta)  # [T, J]
    levels = (np.flatnonzero((room <= most).all(axis=0)) for most in SOUND)
    least_bad = np.array([int(np.argmin(room.max(axis=0)))])
    sound = next((some for some in levels if len(some)), least_bad)
    windows = []
    for j in sound[:: max(len(sound) // TRIED, 1)]:
        needed = np.maximum(room[:, [j]], 0.0) - math.log(TAIL)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = (cumulants - cumulants[:, [j]] + needed) / (tilts - tilts[j])
        start = np.maximum(ends[:, :j].max(axis=1, initial=-np.inf), low).min()
        end = np.minimum(ends[:, j + 1 :].min(axis=1, initial=np.inf), high).max()
        start = min(float(start), 0.0)
        windows.append(Window(float(tilts[j]), start, float(end), steps, spans))
    narrowest = min(window.width for window in windows)
    return [window for window in windows if window.width <= SPARE * narrowest][-1]
