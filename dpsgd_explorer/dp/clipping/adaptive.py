"""A clipping bound that follows a quantile of the gradient norms, privately.

Each step also releases how many samples of the batch were within the bound, with noise
of its own, and the bound moves towards the wanted share:

    C <- C exp(-learning_rate (share - quantile)).

A sample adds 1/2 to the count if it is within the bound and -1/2 if not, so that the
count moves by 1/2 when a record comes or goes; the share is 1/2 + count / B with the
public B.  Gradient and count are two Gaussians on one batch: with noise multipliers z_g
and z_c they are one with 1/z^2 = 1/z_g^2 + 1/z_c^2.  The plan's z stands; the gradient
gets the larger z_g.

Source: Andrew et al. (2021), arXiv:1905.03871, section 2.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.noise.base import Meter, NoiseSource
from dpsgd_explorer.errors import ConfigError

COUNT_SENSITIVITY = 0.5
SHARE_OF_BATCH = 20  # the source's choice of noise on the count: B / 20
LARGEST_FACTOR = 2.0**60  # and its inverse the smallest: float32 holds C times it
LEAST_COUNT_NOISE = 4.0  # over the plan's multiplier: the gradient gets 3 % more


@dataclass(frozen=True)
class AdaptiveClipping:
    """What the bound is to follow, for ``clipping_schedule``.

    Attributes:
        quantile: Share of samples that are to be within the bound.
        learning_rate: How fast it moves; 0.2 changes it by 10 % a step at most if half
            of the samples are to be within.
        count_noise: Noise std of the count; if not given, a twentieth of the expected
            batch size, or more where that would cost the gradient over 3 % of noise.
    """

    quantile: float = 0.5
    learning_rate: float = 0.2
    count_noise: float | None = None

    def __post_init__(self) -> None:
        """Check every number's domain."""
        _require("quantile", self.quantile, "between 0 and 1", 0 < self.quantile < 1)
        _require_positive("learning_rate", self.learning_rate)
        if self.count_noise is not None:
            _require_positive("count_noise", self.count_noise)

    def noise_multiplier(self, plan: Plan) -> float:
        """Return the count's noise std over its sensitivity; 0 without privacy.

        Raises:
            ConfigError: the count alone would spend more than the plan does.
        """
        least = plan.noise_multiplier
        if not plan.is_private:
            return 0.0
        if self.count_noise is None:
            usual = plan.expected_batch_size / SHARE_OF_BATCH / COUNT_SENSITIVITY
            return max(usual, LEAST_COUNT_NOISE * least)
        found = self.count_noise / COUNT_SENSITIVITY
        if found <= least:
            raise ConfigError(
                "count_noise",
                f"count_noise must be above noise_multiplier / 2 = {least / 2:g}, or "
                f"the count alone spends the budget; got {self.count_noise!r}.",
            )
        return found

    def as_data(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"name": "adaptive", **asdict(self)}


class AdaptiveBound:
    """The bound of one run, and how it came about."""

    def __init__(self, settings: AdaptiveClipping, plan: Plan) -> None:
        self.count_noise = settings.noise_multiplier(plan)
        self._settings = settings
        self._batch_size = plan.expected_batch_size
        self._factors = [1.0]

    def factor(self, step: int) -> float:
        """Return what multiplied the first bound at a step."""
        return self._factors[step]

    def observe(
        self, norms: Tensor, max_grad_norm: float, noise: NoiseSource | None
    ) -> float:
        """Count the norms within the bound, with noise, and move the bound."""
        within = (norms <= max_grad_norm).double() - 0.5  # NaN is not within
        count = within.sum().reshape(1).cpu()
        used = 0.0
        if noise is not None:
            meter = Meter(noise)
            meter.add_to(count, self.count_noise * COUNT_SENSITIVITY)
            used = meter.standard_deviation / COUNT_SENSITIVITY
        share = 0.5 + float(count) / self._batch_size
        move = self._settings.learning_rate * (share - self._settings.quantile)
        exponent = math.log(self._factors[-1]) - move
        most = math.log(LARGEST_FACTOR)
        self._factors.append(math.exp(min(max(exponent, -most), most)))
        return used

    def skip(self, steps: int) -> None:
        """Keep the bound for so many steps."""
        self._factors += [self._factors[-1]] * steps

    def state(self) -> list[float]:
        """Return the factors so far."""
        return list(self._factors)

    def restore(self, state: list[float]) -> None:
        """Go on from these factors."""
        self._factors = list(state)


def _require_positive(name: str, value: float) -> None:
    _require(name, value, "a finite number above 0", 0 < value < math.inf)


def _require(name: str, value: float, rule: str, holds: bool) -> None:
    if not holds:
        raise ConfigError(name, f"{name} must be {rule}; got {value!r}.")
