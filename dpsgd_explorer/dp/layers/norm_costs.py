"""Which way to a norm is quicker, by a count of what a processor does for it.

The gradient of a sample is a product of a [p, T] by a [T, D] matrix.  Making it costs
as many multiply-adds as the clipped sum will, and saves that sum: what is left of its
price is that each of the p D entries is written once and read twice.  The ghost norm
makes two T by T Gram matrices, and the sum still comes on top.  So the old rule,
T^2 (D + p) against T D p, has the right ghost side, and overrates the gradient by T
over the price of an entry.

The figures below are of processors with vector units of 256 and 512 bits; a factor of
two either way moves few layers.  They are constants, not measurements, because two
runs of one configuration must choose alike to give the same numbers.
"""

from __future__ import annotations

#: Multiply-adds in the time of writing one entry and reading it twice.
ENTRY = 20
#: Multiply-adds in the time of copying one entry of a patch.
COPY = 40


def ghost_is_quicker(
    positions: int, inputs: int, outputs: int, *, copied: bool = False
) -> bool:
    """Whether the norm is quicker without the gradient.

    Args:
        positions: T, over which one sample's gradient is summed.
        inputs: D, entries of an input, or of a patch.
        outputs: p.
        copied: Whether inputs must be copied to patches for their Gram matrix.
    """
    if positions == 1:
        return True
    ghost = positions**2 * (inputs + outputs) + copied * COPY * positions * inputs
    return ghost < ENTRY * inputs * outputs
