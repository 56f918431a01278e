"""What a source of noise must do, and a meter of what was drawn from it."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from dpsgd_explorer.errors import PrivacyError


class Noise(Protocol):
    """Something that adds Gaussian noise."""

    def add_to(self, values: Tensor, standard_deviation: float) -> None:
        """Add independent N(0, standard_deviation^2) to every entry of [P]."""


class NoiseSource(Noise, Protocol):
    """Noise with a state.

    Attributes:
        note: What the receipt says of it.
        repeatable: Whether ``restore`` brings the same noise back.
    """

    note: str
    repeatable: bool

    def state(self) -> Tensor:
        """Return what ``restore`` takes."""

    def restore(self, state: Tensor) -> None:
        """Go on from a state; with other noise if it is not repeatable."""


class Meter:
    """Hands noise on, and keeps count of it for the receipt.

    Attributes:
        numbers: Entries that got noise.
        standard_deviation: Of that noise; 0 if there was none.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self.numbers = 0
        self.standard_deviation = 0.0

    def add_to(self, values: Tensor, standard_deviation: float) -> None:
        """Add noise as the source does.

        Raises:
            PrivacyError: it is of another size than before.
        """
        if self.numbers and standard_deviation != self.standard_deviation:
            raise PrivacyError(
                "all noise of a step must have one standard deviation; got "
                f"{self.standard_deviation} and {standard_deviation}. Call step() once "
                "for each batch."
            )
        self._noise.add_to(values, standard_deviation)
        self.numbers += values.numel()
        self.standard_deviation = standard_deviation
