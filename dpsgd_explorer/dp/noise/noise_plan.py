"""The noise of every step of a run: its size, and what the noisy sum is divided by."""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.accounting.released_counts import gradient_noise
from dpsgd_explorer.accounting.schedules import Factor


@dataclass(frozen=True, kw_only=True)
class NoisePlan:
    """The noise of each step; releases are drawn by it and receipts compared with it.

    Attributes:
        noise_multiplier: Noise standard deviation over the clipping bound at step 0;
            0 adds none.
        sensitivity: Clipping bound C at step 0: the L2 sensitivity of the clipped sum
            when one record is added or removed.
        divisor: Public constant by which the noisy sum is divided.
        noise_factor: Step -> factor of the noise multiplier; None for 1 at all steps.
        bound_factor: Step -> factor of the clipping bound; None for 1 at all steps.
        count_noise: Noise multiplier of the counts that adaptive clipping releases next
            to the gradients; 0 if it releases none.
    """

    noise_multiplier: float
    sensitivity: float
    divisor: float
    noise_factor: Factor | None = None
    bound_factor: Factor | None = None
    count_noise: float = 0.0

    @property
    def is_private(self) -> bool:
        """Whether noise is added."""
        return self.noise_multiplier > 0

    @property
    def is_constant(self) -> bool:
        """Whether all steps have the noise and the bound of step 0."""
        return self.noise_factor is None and self.bound_factor is None

    def joint_noise_at(self, step: int) -> float:
        """Return the noise multiplier of a step's gradient and count together."""
        factor = 1.0 if self.noise_factor is None else self.noise_factor(step)
        return self.noise_multiplier * factor

    def noise_multiplier_at(self, step: int) -> float:
        """Return the noise multiplier of a step's gradient."""
        return gradient_noise(self.joint_noise_at(step), self.count_noise)

    def max_grad_norm_at(self, step: int) -> float:
        """Return the clipping bound of a step."""
        factor = 1.0 if self.bound_factor is None else self.bound_factor(step)
        return self.sensitivity * factor

    def standard_deviation_at(self, step: int) -> float:
        """Return the standard deviation of the noise on each entry of a step's sum."""
        return self.noise_multiplier_at(step) * self.max_grad_norm_at(step)
