"""The base of rules whose gradients are matrix products, and the choice of their norm.

The gradient of a sample is a product of a [p, T] by a [T, D] matrix, in each of G
groups.  To instantiate it costs as many multiply-adds as the clipped sum will, and
saves that sum: what remains of its cost is that each of the p D entries is written once
and read twice.  The ghost norm makes two T by T Gram matrices, and the sum is computed
on top.  So the rule of the papers, T^2 (D + p) against T D p, has the right ghost side,
and overrates the gradient by T over the cost of an entry.

The constants below are for processors with vector units of 256 and 512 bits; a factor
of two either way changes the choice for few layers.  They decide unless an engine is
asked to measure (``engines.measured_methods``): two runs of one configuration that give
the same numbers must choose alike.

Source: Bu, Mao and Xu (2022), arXiv:2205.10683 (the choice per layer).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor

from dpsgd_explorer.dp.layers.base import LayerRule, LayerT, MultiplyAdds
from dpsgd_explorer.dp.layers.round_off import excess

#: Multiply-adds in the time of writing one entry and reading it twice.
ENTRY = 20
#: Multiply-adds in the time of copying one entry of a patch.
COPY = 40


class MatrixSizes(NamedTuple):
    """The sizes of a sample's gradient, per group.

    Attributes:
        positions: T, over which the gradient is summed.
        inputs: D, entries of an input or of a patch.
        outputs: p.
        groups: G.
    """

    positions: int
    inputs: int
    outputs: int
    groups: int = 1


class MatrixRule(LayerRule[LayerT]):
    """A rule whose gradients are products [p, T] by [T, D]."""

    reads_parameters: ClassVar[bool] = False
    #: Whether inputs are copied to patches for their Gram matrix.
    copies_inputs: ClassVar[bool] = False

    @abstractmethod
    def sizes(
        self, layer: LayerT, activations: Tensor, backprops: Tensor
    ) -> MatrixSizes:
        """Return the sizes of one sample's gradient; only shapes are read."""

    def multiply_adds(
        self, layer: LayerT, activations: Tensor, backprops: Tensor
    ) -> MultiplyAdds:
        """T^2 (D + p) against T D p in each group."""
        t, d, p, groups = self.sizes(layer, activations, backprops)
        return MultiplyAdds(groups * t**2 * (d + p), groups * t * d * p)

    def cost_ratio(
        self, layer: LayerT, activations: Tensor, backprops: Tensor
    ) -> float:
        t, d, p, _ = self.sizes(layer, activations, backprops)
        if t == 1:  # the ghost norm is a product of two lengths: always cheaper
            return 0.0
        ghost = t**2 * (d + p) + self.copies_inputs * COPY * t * d
        return ghost / max(1, ENTRY * d * p)

    def excess(self, layer: LayerT, activations: Tensor, backprops: Tensor) -> float:
        return excess(*self.sizes(layer, activations, backprops)[:3])
