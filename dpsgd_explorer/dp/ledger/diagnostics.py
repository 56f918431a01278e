"""Statistics of one step.  Outside the guarantee: not private."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum, Tally


@dataclass(frozen=True)
class Diagnostics:
    """Statistics of the last logical batch, without noise: not private.

    Attributes:
        tally: Norms and clipping factors of its samples.
        noise: Expected norm of the noise.
        squares: Parts of the squared norm of the clipped sum.
    """

    tally: Tally
    noise: float
    squares: Sequence[Tensor | float]

    @property
    def norms(self) -> Tensor:
        """Gradient norm of each sample before clipping, [B].

        A sample that was left out has an infinite or undefined one.
        """
        return self.tally.norms

    @property
    def non_finite(self) -> int:
        """Samples left out because their gradient was not finite."""
        return self.tally.non_finite

    @property
    def batch_size(self) -> int:
        """Samples drawn, B."""
        return self.tally.norms.shape[0]

    @cached_property
    def noise_to_signal(self) -> float | None:
        """Expected norm of the noise over that of the clipped sum; None if it is 0."""
        signal = math.sqrt(sum(map(float, self.squares)))
        return self.noise / signal if signal else None

    @cached_property
    def clipped_fraction(self) -> float | None:
        """Share of samples whose gradient was shortened; None for an empty batch."""
        size = self.batch_size
        return self.tally.shortened() / size if size else None


def diagnose(total: ClippedSum, standard_deviation: float) -> Diagnostics:
    """Return the statistics of a logical batch.

    Args:
        total: The clipped sum, released.
        standard_deviation: Standard deviation of the noise on each entry of the sum.
    """
    noise = standard_deviation * math.sqrt(total.numel)
    return Diagnostics(total.tally(), noise, total.squares)
