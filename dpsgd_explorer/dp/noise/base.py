"""The interface of noise sources, and the meter that measures their noise."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

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

    def state(self) -> Tensor:
        """Returns the state, for ``restore``."""

    def restore(self, state: Tensor) -> None:
        """Continues from a state, with fresh noise if the source is not repeatable."""


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
