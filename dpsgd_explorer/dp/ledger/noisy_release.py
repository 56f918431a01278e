"""The release of a step: the only function through which gradients leave the engine."""

from __future__ import annotations

from torch import Tensor, nn

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.ledger.ledger import Release
from dpsgd_explorer.dp.noise.base import Meter, NoisePlan, NoiseSource

Gradients = dict[nn.Parameter, Tensor]


def noisy_release(
    total: ClippedSum,
    noise: NoiseSource,
    noise_plan: NoisePlan,
    sample_rate: float,
    step: int = 0,
) -> tuple[Gradients, Release]:
    """Returns the noisy gradients of one step, and the record of the step.

    The record contains measured values, never planned ones: the meter measures the
    noise, the clipper supplies its bound, and the caller passes the sampler's rate.
    Comparing the record with the plan therefore detects a fault in any of them.

    Args:
        total: The clipped sum of a whole logical batch.
        noise: Source of the noise.
        noise_plan: Noise and divisor of each step.
        sample_rate: Rate of the sampler that drew the batch.
        step: Number of steps released before.

    Returns:
        {parameter: noisy gradient}, and the record; its number of noise entries is
        summed over the ranks.
    """
    meter = Meter(noise)
    gradients = total.release(
        meter if noise_plan.is_private else None,
        noise_plan.standard_deviation_at(step),
        noise_plan.divisor,
    )
    numbers = meter.numbers
    if not total.ranks.is_alone:
        numbers = int(*total.ranks.total(numbers))
    bound = total.clipper.max_grad_norm
    return gradients, Release(
        sample_rate=sample_rate,
        noise_multiplier=meter.standard_deviation / (bound * noise_plan.column_norm),
        noise_draws=numbers // total.numel,
        noise_numbers=numbers,
        parameters=total.numel,
        max_grad_norm=bound,
        divisor=noise_plan.divisor,
    )
