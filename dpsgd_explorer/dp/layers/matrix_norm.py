"""The ghost norm of gradients that are matrix products, and an estimate of its cost.

The gradient of a sample is a product of a [p, T] by a [T, D] matrix, in each of G
groups.  An instantiated gradient costs the multiply-adds of the clipped sum, and the
sum then needs none of them.  Its additional cost is writing p D entries and reading
them for the sum.  The ghost norm computes two T by T Gram matrices, reads inputs and
backprops for them and for the rounding bounds, and the clipped sum is computed in
addition.  The rule of the papers, T^2 (D + p) against T D p, therefore omits the reads
of the ghost norm, and overestimates the gradient by T over the cost of an entry.

The constants below are fitted to a processor with vector units of 512 bits
(docs/decisions/0018-compiled-linear-gradients.md).  Doubling or halving them changes
the choice for few layers.  All processors use equal constants, because two runs with
equal numbers must make equal choices.

Source: Bu, Mao and Xu (2022), arXiv:2205.10683 (the choice per layer).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor

from dpsgd_explorer.dp.layers.ghost_norm import GhostNorm, LayerT, MultiplyAdds
from dpsgd_explorer.dp.layers.round_off import inflation

#: Multiply-adds in the time of writing and reading one entry of a gradient.
ENTRY_MULTIPLY_ADDS = 16
#: Multiply-adds in this time if the memory order differs from the parameter's.
REORDERED_ENTRY_MULTIPLY_ADDS = 48
#: Multiply-adds in the time of reading one entry of an input or a backprop.
READ_MULTIPLY_ADDS = 45
#: Multiply-adds in the time of copying one entry of a patch.
COPY_MULTIPLY_ADDS = 40


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
        if t == 1:  # The ghost norm is a product of two norms, which is always cheaper.
            return 0.0
        if self.has_patches:
            entry, copied = REORDERED_ENTRY_MULTIPLY_ADDS, t * d
        else:
            entry, copied = ENTRY_MULTIPLY_ADDS, 0
        return cost_ratio(t, d + p, d * p, entry=entry, copied=copied)

    def inflation(self, layer: LayerT, activations: Tensor, backprops: Tensor) -> float:
        return inflation(*self.sizes(layer, activations, backprops)[:3])


def cost_ratio(
    positions: int,
    read: int,
    entries: int,
    *,
    entry: int = ENTRY_MULTIPLY_ADDS,
    copied: int = 0,
) -> float:
    """Returns the estimated cost ratio of a ghost norm and gradients, per sample.

    Args:
        positions: T.
        read: Entries of an input and a backprop, D + p.
        entries: Entries of the gradients, D p.
        entry: Multiply-adds in the time of writing and reading one entry.
        copied: Entries that are copied for the ghost norm.
    """
    ghost = (
        positions * read * (positions + READ_MULTIPLY_ADDS)
        + COPY_MULTIPLY_ADDS * copied
    )
    return ghost / max(1, entry * entries)
