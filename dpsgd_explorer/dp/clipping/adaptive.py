"""A clipping bound that follows a quantile of the gradient norms, privately.

Each step also releases a noisy count of the samples whose norm is within the bound.
The bound C then moves towards the target quantile:

    C <- C exp(-learning_rate (share - quantile)).

Worked example: with quantile 0.5 and learning rate 0.2, a batch with all samples within
the bound (share 1) gives C exp(-0.1), which is 10% less.

Each sample adds 1/2 to the count if its norm is within the bound, and -1/2 otherwise.
Adding or removing a record therefore changes the count by 1/2.  The share is 1/2 +
count / B, with the public expected batch size B.  Gradient and count together cost as
much as one release with the plan's noise multiplier; see ``NoisePlan``.

Source: Andrew et al. (2021), arXiv:1905.03871, section 2.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.released_counts import (
    COUNT_SENSITIVITY,
    usual_count_noise,
)
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.noise.base import Meter, NoiseSource
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import finite, positive, shown

#: Largest factor of the bound; the smallest is its inverse.  It keeps the bound within
#: the range of float32, which ends at 2^128.
MAX_FACTOR = 2.0**60


@dataclass(frozen=True)
class AdaptiveClipping:
    """A clipping bound that follows a quantile of the gradient norms.

    Pass it as ``schedule`` of ``Clipping``, with ``fn="Abadi"`` and
    ``style="all-layer"``.  ``max_grad_norm`` is the bound of the first step.  Each step
    releases a noisy count of the samples within the bound; the epsilon of the run
    includes the counts.

    Args:
        quantile: Target share of the samples within the bound, between 0 and 1.
        learning_rate: Step size of the bound's logarithm, above 0; with quantile 0.5, a
            rate of 0.2 changes the bound by at most 10% per step.
        count_noise: Standard deviation of the noise of the count, in samples; if None,
            a twentieth of the expected batch size, or more where the noise of the
            gradient would otherwise grow by more than 3%.

    Raises:
        ConfigError: a number is outside its domain.

    Source: Andrew et al. (2021), arXiv:1905.03871, section 2.

    Example:
        >>> from dpsgd_explorer import dp
        >>> median = dp.AdaptiveClipping(quantile=0.5)
        >>> dp.Clipping(max_grad_norm=0.1, fn="Abadi", schedule=median).schedule
        AdaptiveClipping(quantile=0.5, learning_rate=0.2, count_noise=None)
    """

    quantile: float = 0.5
    learning_rate: float = 0.2
    count_noise: float | None = None

    def __post_init__(self) -> None:
        """Checks every number's domain."""
        quantile = finite("quantile", self.quantile)
        if not 0 < quantile < 1:
            raise ConfigError(
                "quantile",
                f"quantile must be between 0 and 1, got {shown(self.quantile)}.",
            )
        plain = {"quantile": quantile}
        plain["learning_rate"] = positive("learning_rate", self.learning_rate)
        if self.count_noise is not None:
            plain["count_noise"] = positive("count_noise", self.count_noise)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def noise_multiplier(self, plan: Plan) -> float:
        """Returns the noise multiplier of the count; 0 for a run without noise.

        It is the standard deviation of the noise, divided by the count's sensitivity.

        Raises:
            ConfigError: the count alone would cost more than the plan's releases.
        """
        planned = max(phase.noise_multiplier for phase in plan.phases)
        if not plan.is_private:
            return 0.0
        if self.count_noise is None:
            return usual_count_noise(plan)
        multiplier = self.count_noise / COUNT_SENSITIVITY
        if multiplier <= planned:
            raise ConfigError(
                "count_noise",
                f"count_noise must be above noise_multiplier / 2 = {planned / 2:g}, "
                "because otherwise the count alone spends the budget, got "
                f"{self.count_noise!r}.",
            )
        return multiplier

    def as_data(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {"name": "adaptive", **asdict(self)}


class AdaptiveBound:
    """The adaptive clipping bound of one run; see ``Bound``.

    Args:
        clipping: Settings of the adaptation.
        plan: Plan of the run.
    """

    is_constant = False

    def __init__(self, clipping: AdaptiveClipping, plan: Plan) -> None:
        self.count_noise = clipping.noise_multiplier(plan)
        self._clipping = clipping
        self._batch_size = plan.expected_batch_size
        self._factors = [1.0]
        self.choices: list[tuple[int, float]] = []

    def factor(self, step: int) -> float:
        """Returns the bound of a step, divided by the bound of the first step."""
        return self._factors[step]

    def observe(
        self,
        norms: Tensor,
        max_grad_norm: float,
        noise: NoiseSource | None,
        ranks: Ranks = ALONE,
    ) -> float:
        """Moves the bound by a noisy count of the norms within it.

        Args:
            norms: Gradient norms of this rank's samples, [B]; NaN is not within the
                bound.
            max_grad_norm: Clipping bound of the step.
            noise: Source of the noise; None for no noise.
            ranks: The processes whose counts are added; rank 0 adds the noise.

        Returns:
            Measured noise multiplier of the count; 0 without noise.
        """
        # Terms of 1/2 and -1/2 have half the sensitivity of terms of 1 and 0.
        within = (norms <= max_grad_norm).double() - 0.5
        count = torch.tensor(ranks.total(float(within.sum())), dtype=torch.float64)
        multiplier = 0.0
        if noise is not None and ranks.rank == 0:
            meter = Meter(noise)
            meter.add_to(count, self.count_noise * COUNT_SENSITIVITY)
            multiplier = meter.standard_deviation / COUNT_SENSITIVITY
        noisy_count, multiplier = ranks.broadcast(float(count), multiplier)
        share = 0.5 + noisy_count / self._batch_size
        move = self._clipping.learning_rate * (share - self._clipping.quantile)
        # The logarithm is limited, so that no learning rate makes the bound overflow.
        exponent = math.log(self._factors[-1]) - move
        limit = math.log(MAX_FACTOR)
        self._factors.append(math.exp(min(max(exponent, -limit), limit)))
        return multiplier

    def skip(self, steps: int) -> None:
        """Keeps the current bound for further steps."""
        self._factors += [self._factors[-1]] * steps

    def state(self) -> list[float]:
        """Returns the factors of all steps so far."""
        return list(self._factors)

    def restore(self, state: list[float]) -> None:
        """Continues from a result of ``state``."""
        self._factors = list(state)
