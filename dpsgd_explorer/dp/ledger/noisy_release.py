"""The one moment at which something leaves the engine: a noisy gradient."""

from __future__ import annotations

from torch import Tensor, nn

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.ledger.ledger import Release
from dpsgd_explorer.dp.ledger.receipt import Told
from dpsgd_explorer.dp.noise.base import Meter, NoiseSource

Gradients = dict[nn.Parameter, Tensor]


def noisy_release(
    total: ClippedSum,
    noise: NoiseSource,
    told: Told,
    sample_rate: float,
    step: int = 0,
) -> tuple[Gradients, Release]:
    """Return the gradients of one step, and what is to be written down of it.

    What is written is what was done: the noise by the meter, the bound by the clipper,
    the rate by the sampler.  It is held against what was told elsewhere.

    Args:
        total: The clipped sum of a whole logical batch.
        noise: Where the noise comes from.
        told: How much of it there has to be, and by what the sum is divided.
        sample_rate: Of the sampler that drew the batch.
        step: How many were made before.
    """
    deviation = told.noise_multiplier_at(step) * told.max_grad_norm_at(step)
    meter = Meter(noise)
    gradients = total.release(
        meter if told.plan.is_private else None, deviation, told.divisor
    )
    bound = total.clipper.max_grad_norm
    done = Release(
        sample_rate=sample_rate,
        noise_multiplier=meter.standard_deviation / bound,
        noise_draws=meter.numbers // total.numel,
        noise_numbers=meter.numbers,
        parameters=total.numel,
        max_grad_norm=bound,
        divisor=told.divisor,
    )
    return gradients, done
