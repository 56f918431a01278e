"""The noise of a step: its source, its plan, and the meter that measures it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from dpsgd_explorer.accounting.released_counts import gradient_noise
from dpsgd_explorer.accounting.schedules import Factor
from dpsgd_explorer.errors import PrivacyError


class Noise(Protocol):
    """Adds Gaussian noise."""

    def add_to(
        self, values: Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> Tensor | float:
        """Adds independent N(0, standard_deviation^2) noise to values and divides them.

        Args:
            values: Values [P], changed in place.
            standard_deviation: Standard deviation of the noise on each value.
            divisor: Divisor of the noisy values.

        Returns:
            Squared norm of the values before noise.  Not private.
        """


class NoiseSource(Noise, Protocol):
    """Source of noise with a state that can be saved.

    Attributes:
        note: Description for the receipt.
        repeatable: True if the noise after ``restore`` repeats the noise that followed
            ``state``.
    """

    note: str
    repeatable: bool

    def state(self) -> Any:
        """Returns the state of tensors and plain values, for ``restore``."""

    def restore(self, state: Any) -> None:
        """Continues from a state, with fresh noise if the source is not repeatable."""


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
        column_norm: Norm of the first column of a strategy of correlated noise, by
            which the noise multiplier is multiplied; 1 for independent noise.
    """

    noise_multiplier: float
    sensitivity: float
    divisor: float
    noise_factor: Factor | None = None
    bound_factor: Factor | None = None
    count_noise: float = 0.0
    column_norm: float = 1.0

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
        if self.noise_factor is None:
            return self.noise_multiplier
        return self.noise_multiplier * self.noise_factor(step)

    def noise_multiplier_at(self, step: int) -> float:
        """Returns the noise multiplier of a step's gradient."""
        joint_noise = self.joint_noise_at(step)
        if not self.count_noise:
            return joint_noise
        return gradient_noise(joint_noise, self.count_noise)

    def max_grad_norm_at(self, step: int) -> float:
        """Returns the clipping bound of a step."""
        if self.bound_factor is None:
            return self.sensitivity
        return self.sensitivity * self.bound_factor(step)

    def standard_deviation_at(self, step: int) -> float:
        """Returns the standard deviation of the fresh noise on each entry of a sum."""
        scale = self.max_grad_norm_at(step) * self.column_norm
        return self.noise_multiplier_at(step) * scale


class Meter:
    """Adds the noise of a source, and measures it for the receipt.

    Args:
        noise: Source of the noise.

    Attributes:
        numbers: Number of entries that received noise.
        standard_deviation: Standard deviation of the noise; 0 before the first noise.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self.numbers = 0
        self.standard_deviation = 0.0

    def add_to(
        self, values: Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> Tensor | float:
        """Adds noise and divides, as ``Noise.add_to`` does.

        Raises:
            PrivacyError: ``standard_deviation`` differs from the previous call.
        """
        if self.numbers and standard_deviation != self.standard_deviation:
            raise PrivacyError(
                "all noise of a step must have one standard deviation, got "
                f"{self.standard_deviation} and {standard_deviation}. Call step() once "
                "for each batch."
            )
        square = self._noise.add_to(values, standard_deviation, divisor)
        self.numbers += values.numel()
        self.standard_deviation = standard_deviation
        return square
