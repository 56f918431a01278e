"""Statistics of one step.  They are not private: epsilon does not cover them."""

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
        tally: Norms and clipping factors of the samples.
        noise: Expected norm of the noise.
        squares: Squared norms of the chunks of the clipped sum.
    """

    tally: Tally
    noise: float
    squares: Sequence[Tensor | float]

    def __repr__(self) -> str:
        """Returns the statistics in one line, without a number for each sample."""
        return (
            f"Diagnostics(batch_size={self.batch_size}, "
            f"clipped_fraction={_short(self.clipped_fraction)}, "
            f"noise_to_signal={_short(self.noise_to_signal)}, "
            f"non_finite={self.non_finite})"
        )

    @property
    def norms(self) -> Tensor:
        """Gradient norm of each sample before clipping, ``(B,)``.

        The norm of a sample that was left out is infinite or NaN.
        """
        return self.tally.norms

    @property
    def non_finite(self) -> int:
        """Number of samples left out because their gradient was not finite."""
        return self.tally.non_finite

    @property
    def batch_size(self) -> int:
        """Number of samples drawn, B."""
        return self.tally.norms.shape[0]

    @cached_property
    def noise_to_signal(self) -> float | None:
        """Expected norm of the noise over the norm of the clipped sum.

        None if the clipped sum is 0.
        """
        signal = math.sqrt(sum(map(float, self.squares)))
        return self.noise / signal if signal else None

    @cached_property
    def clipped_fraction(self) -> float | None:
        """Share of samples whose gradient was scaled down; None for an empty batch."""
        size = self.batch_size
        return self.tally.clipped_samples() / size if size else None


def _short(number: float | None) -> str:
    return "None" if number is None else f"{number:.3g}"


def diagnose(total: ClippedSum, standard_deviation: float) -> Diagnostics:
    """Returns the statistics of a logical batch.

    Args:
        total: The clipped sum, after its release.
        standard_deviation: Standard deviation of the noise on each entry of the sum.
    """
    noise = standard_deviation * math.sqrt(total.numel)
    return Diagnostics(total.tally(), noise, total.squares)
