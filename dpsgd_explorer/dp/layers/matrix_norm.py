"""The ghost norm of gradients that are matrix products, and when it is worth its cost.

The gradient of a sample is a product of a [p, T] by a [T, D] matrix, in each of G
groups.  To instantiate it costs as many multiply-adds as the clipped sum will, and
saves that sum: what remains of its cost is that each of the p D entries is written once
and read for the sum.  The ghost norm makes two T by T Gram matrices, reads inputs and
backprops for them and for what rounding may hide, scales one of them, and the sum is
computed on top.  So the rule of the papers, T^2 (D + p) against T D p, lacks what is
read on the ghost side, and overrates the gradient by T over the cost of an entry.

The constants below are fitted to a processor with vector units of 512 bits
(docs/decisions/0018-compiled-linear-gradients.md); a factor of two either way changes
the choice for few layers.  They are the same on every processor, since two runs of one
configuration that give the same numbers must choose alike.

Source: Bu, Mao and Xu (2022), arXiv:2205.10683 (the choice per layer).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor

from dpsgd_explorer.dp.layers.ghost_norm import GhostNorm, LayerT, MultiplyAdds
from dpsgd_explorer.dp.layers.round_off import inflation

#: Multiply-adds in the time of writing an entry of a gradient and reading it.
ENTRY = 16
#: The same where it is written in another order than the parameter's.
ENTRY_IN_ANOTHER_ORDER = 48
#: Multiply-adds in the time of what is read of an input or a backprop.
READ = 45
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


class MatrixNorm(GhostNorm[LayerT, Tensor]):
    """A ghost norm of gradients that are products [p, T] by [T, D]."""

    #: If True, inputs are patches, which are copied for their Gram matrix.
    has_patches: ClassVar[bool] = False

    @abstractmethod
    def sizes(
        self, layer: LayerT, activations: Tensor, backprops: Tensor
    ) -> MatrixSizes:
        """Returns the sizes of one sample's gradient; only shapes are read."""

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
        if self.has_patches:
            entry, copied = ENTRY_IN_ANOTHER_ORDER, t * d
        else:
            entry, copied = ENTRY, 0
        return cost_ratio(t, d + p, d * p, entry=entry, copied=copied)

    def inflation(self, layer: LayerT, activations: Tensor, backprops: Tensor) -> float:
        return inflation(*self.sizes(layer, activations, backprops)[:3])


def cost_ratio(
    positions: int, read: int, entries: int, *, entry: int = ENTRY, copied: int = 0
) -> float:
    """Return the estimated cost of a ghost norm over that of gradients, per sample.

    Args:
        positions: T.
        read: Entries of an input and a backprop, D + p.
        entries: Entries of the gradients, D p.
        entry: Multiply-adds in the time of each of them.
        copied: Entries that are copied for the ghost norm.
    """
    ghost = positions * read * (positions + READ) + COPY * copied
    return ghost / max(1, entry * entries)
