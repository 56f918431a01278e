"""The release of a step: the only place where a gradient leaves the engine."""

from __future__ import annotations

from torch import Tensor, nn

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.ledger.ledger import Release
from dpsgd_explorer.dp.noise.base import Meter, NoiseSource
from dpsgd_explorer.dp.noise.noise_plan import NoisePlan

Gradients = dict[nn.Parameter, Tensor]


def noisy_release(
    total: ClippedSum,
    noise: NoiseSource,
    noise_plan: NoisePlan,
    sample_rate: float,
    step: int = 0,
) -> tuple[Gradients, Release]:
    """Return the noisy gradients of one step, and the record of how they were made.

    The record holds what was measured, never the plan: the noise by the meter, the
    bound by the clipper, the rate by the sampler.  Comparing it with the plan therefore
    finds a fault in any of them.  Numbers of noise are added up over the ranks.

    Args:
        total: The clipped sum of a whole logical batch.
        noise: Source of the noise.
        noise_plan: Noise and divisor of each step.
        sample_rate: Rate of the sampler that drew the batch.
        step: Number of steps released before.
    """
    meter = Meter(noise)
    gradients = total.release(
        meter if noise_plan.is_private else None,
        noise_plan.standard_deviation_at(step),
        noise_plan.divisor,
    )
    numbers = int(*total.ranks.total(meter.numbers))
    bound = total.clipper.max_grad_norm
    return gradients, Release(
        sample_rate=sample_rate,
        noise_multiplier=meter.standard_deviation / bound,
        noise_draws=numbers // total.numel,
        noise_numbers=numbers,
        parameters=total.numel,
        max_grad_norm=bound,
        divisor=noise_plan.divisor,
    )
