"""The interface of noise sources, and the measurement of the noise drawn."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from dpsgd_explorer.errors import PrivacyError


class Noise(Protocol):
    """Adds Gaussian noise."""

    def add_to(
        self, values: Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> Tensor | float:
        """Add independent N(0, standard_deviation^2) to all of [P], and divide them.

        Returns:
            The squared norm of the values before.  Not private.
        """


class NoiseSource(Noise, Protocol):
    """Noise with a state.

    Attributes:
        note: Description for the receipt.
        repeatable: Whether the noise after ``restore`` is the same again.
    """

    note: str
    repeatable: bool

    def state(self) -> Tensor:
        """Return the state, for ``restore``."""

    def restore(self, state: Tensor) -> None:
        """Continue from a state; with other noise if it is not repeatable."""


class Meter:
    """Adds a source's noise, and measures it for the receipt.

    Attributes:
        numbers: Number of entries that noise was added to.
        standard_deviation: Standard deviation of that noise; 0 if there was none.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self.numbers = 0
        self.standard_deviation = 0.0

    def add_to(
        self, values: Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> Tensor | float:
        """Add noise and divide as the source does.

        Raises:
            PrivacyError: its standard deviation differs from the one before.
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
