"""The planned noise, clipping bound and divisor of each step of a run."""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.accounting.released_counts import gradient_noise
from dpsgd_explorer.accounting.schedules import Factor


@dataclass(frozen=True, kw_only=True)
class NoisePlan:
    """The planned noise, clipping bound and divisor of each step.

    Releases use it, and the recorded steps are compared with it.

    Attributes:
        noise_multiplier: Standard deviation of the noise at step 0, divided by the
            clipping bound; 0 for a run without noise.
        sensitivity: Clipping bound C at step 0: the L2 sensitivity of the clipped sum
            when one record is added or removed.
        divisor: Public constant that divides the noisy sum.
        noise_factor: Function from a step to the factor of the noise multiplier; None
            if it is constant.
        bound_factor: Function from a step to the factor of the clipping bound; None if
            it is constant.
        count_noise: Noise multiplier of the counts that adaptive clipping releases with
            the gradients; 0 without adaptive clipping.
    """

    noise_multiplier: float
    sensitivity: float
    divisor: float
    noise_factor: Factor | None = None
    bound_factor: Factor | None = None
    count_noise: float = 0.0

    @property
    def is_private(self) -> bool:
        """True if the run adds noise."""
        return self.noise_multiplier > 0

    @property
    def is_constant(self) -> bool:
        """True if all steps have the noise and the clipping bound of step 0."""
        return self.noise_factor is None and self.bound_factor is None

    def joint_noise_at(self, step: int) -> float:
        """Returns the multiplier of one release that costs as much as a whole step.

        With adaptive clipping, a step releases a gradient and a count.
        """
        factor = 1.0 if self.noise_factor is None else self.noise_factor(step)
        return self.noise_multiplier * factor

    def noise_multiplier_at(self, step: int) -> float:
        """Returns the noise multiplier of a step's gradient."""
        return gradient_noise(self.joint_noise_at(step), self.count_noise)

    def max_grad_norm_at(self, step: int) -> float:
        """Returns the clipping bound of a step."""
        factor = 1.0 if self.bound_factor is None else self.bound_factor(step)
        return self.sensitivity * factor

    def standard_deviation_at(self, step: int) -> float:
        """Returns the standard deviation of the noise on each entry of a step's sum."""
        return self.noise_multiplier_at(step) * self.max_grad_norm_at(step)
