"""What clipping needs to know of the samples of one backward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Self

from torch import Tensor

Sums = Mapping[str, Mapping[str, Tensor]]
"""{layer, or unit of one: {parameter's local name: tensor of its shape}}."""


class Samples(ABC):
    """The gradients of B samples, however they are held.

    All values belong to each sample's own loss: a mean over the batch is undone.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return B."""

    @abstractmethod
    def squared_norms(self) -> dict[str, Tensor]:
        """Return {layer: squared norm over its trainable parameters, [B]}."""

    @abstractmethod
    def add_weighted_gradients(self, weights: Mapping[str, Tensor], sums: Sums) -> None:
        """Add sum_i weights[layer][i] * gradient_i to the sums."""

    @abstractmethod
    def per_sample_gradients(self) -> dict[str, Tensor]:
        """Return {parameter's full name: [B, *shape]}."""

    @abstractmethod
    def take(self, index: Tensor) -> Self:
        """Return the samples at these positions, in this order."""

    def divided(self) -> tuple[Self | None, Iterator[Self]]:
        """Return the parameters in two parts, the second of them in pieces.

        The gradients of the first part, if there is one, fit in memory for all samples
        at once; those of the second for the samples of a piece.
        """
        return None, iter((self,))


def full_name(layer: str, parameter: str) -> str:
    """Return the parameter's name in ``named_parameters`` of the whole module."""
    return f"{layer}.{parameter}" if layer and parameter else layer or parameter


def unit_of(layer: str, parameter: str, by_parameter: bool) -> tuple[str, str]:
    """Return the (unit, local name) under which norms and sums are kept.

    A unit is a layer, or a single parameter where layers are divided by blocks.
    """
    return (full_name(layer, parameter), "") if by_parameter else (layer, parameter)
