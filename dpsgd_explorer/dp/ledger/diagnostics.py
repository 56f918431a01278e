"""Statistics of one step.  They are not private: epsilon does not cover them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum, Factors


@dataclass(frozen=True)
class Diagnostics:
    """Statistics of the last logical batch, without noise: not private.

    Attributes:
        norms: Gradient norm of each sample before clipping, ``(B,)``.  The norm of a
            sample that was left out is infinite or NaN.
        factors: {layer: clipping factors} of each chunk of the batch.  A sample that
            was left out is missing, or has the factor 1.
        noise: Expected norm of the noise.
        squares: Squared norms of the chunks of the clipped sum.
    """

    norms: Tensor
    factors: Sequence[Factors]
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
    def non_finite(self) -> int:
        """Number of samples left out because their gradient was not finite."""
        return len(self.norms) - int(torch.isfinite(self.norms).sum())

    @property
    def batch_size(self) -> int:
        """Number of samples drawn, B."""
        return self.norms.shape[0]

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
        return sum(map(_clipped_samples, self.factors)) / size if size else None


def _clipped_samples(factors: Factors) -> int:
    """Returns the number of samples with a factor below 1 in some group."""
    distinct = list({id(factor): factor for factor in factors.values()}.values())
    smallest = distinct[0] if len(distinct) == 1 else torch.stack(distinct).amin(0)
    return int(torch.count_nonzero(smallest < 1.0))


def _short(number: float | None) -> str:
    return "None" if number is None else f"{number:.3g}"


def diagnose(total: ClippedSum, standard_deviation: float) -> Diagnostics:
    """Returns the statistics of a logical batch.

    Args:
        total: The clipped sum, after its release.
        standard_deviation: Standard deviation of the noise on each entry of the sum.
    """
    norms = total.norms or [torch.empty(0)]
    return Diagnostics(
        norms=norms[0] if len(norms) == 1 else torch.cat(norms),
        factors=total.factors,
        noise=standard_deviation * math.sqrt(total.numel),
        squares=total.squares,
    )
