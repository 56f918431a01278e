"""Statistics of one step.  Outside the guarantee: not private."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum


@dataclass(frozen=True)
class Diagnostics:
    """Statistics of the last logical batch, without noise: not private.

    Attributes:
        norms: Gradient norm of each sample before clipping, [B]; a sample that was
            left out has an infinite or undefined one.
        clipped_fraction: Share of samples whose gradient was shortened; None for an
            empty batch.
        non_finite: Samples left out because their gradient was not finite.
        batch_size: Samples drawn, B.
        noise_to_signal: Expected norm of the noise over the norm of the clipped sum;
            None if the sum is 0.
    """

    norms: Tensor
    clipped_fraction: float | None
    non_finite: int
    batch_size: int
    noise_to_signal: float | None


def diagnose(total: ClippedSum, standard_deviation: float) -> Diagnostics:
    """Return the statistics of a logical batch.

    Args:
        total: The clipped sum, released.
        standard_deviation: Standard deviation of the noise on each entry of the sum.
    """
    tally, signal = total.tally(), total.signal
    noise = standard_deviation * math.sqrt(total.numel)
    size = tally.norms.shape[0]
    return Diagnostics(
        norms=tally.norms,
        clipped_fraction=tally.shortened / size if size else None,
        non_finite=tally.non_finite,
        batch_size=size,
        noise_to_signal=noise / signal if signal else None,
    )
