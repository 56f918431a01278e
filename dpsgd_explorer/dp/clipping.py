"""From per-sample norms to clip factors.

A *function* turns a norm into a factor; a *style* says which layers share one norm.
Blocks of layers share the bound so that the whole gradient stays within C: with n
blocks each gets C / sqrt(n), and the L2 sensitivity of the sum is C in every style.

Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1 (Abadi);
Bu et al. (2022), arXiv:2206.07136 (automatic, with stability constant 0.01).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor

STABILITY = 0.01

ClippingFunction = Callable[[Tensor, float], Tensor]
Blocks = list[list[str]]


def abadi_factors(norms: Tensor, max_grad_norm: float) -> Tensor:
    """Return min(1, C / norm), exactly; a norm of 0 gives 1.

    Shapes: norms [B], finite and >= 0 -> [B], in (0, 1].
    """
    return max_grad_norm / norms.clamp(min=max_grad_norm)


def automatic_factors(norms: Tensor, max_grad_norm: float) -> Tensor:
    """Return C / (norm + 0.01): every sample is brought to just below C.

    Shapes: norms [B], finite and >= 0 -> [B], in (0, 100 C].
    """
    return max_grad_norm / (norms + STABILITY)


def all_layers(layers: Sequence[str]) -> Blocks:
    """Return one block: the norm is taken over all layers together."""
    return [list(layers)]


CLIPPING_FUNCTIONS: dict[str, ClippingFunction] = {
    "Abadi": abadi_factors,
    "automatic": automatic_factors,
}
CLIPPING_STYLES: dict[str, Callable[[Sequence[str]], Blocks]] = {
    "all-layer": all_layers,
}


class Clipper:
    """Brings each sample's gradient within ``max_grad_norm``.

    | norm of a block | factor |
    |---|---|
    | finite | the clipping function's |
    | infinite, NaN, or its square overflows | the sample contributes 0 in every block |
    """

    def __init__(self, function: str, style: str, max_grad_norm: float) -> None:
        self.function_name, self.style_name = function, style
        self.max_grad_norm = max_grad_norm

    def norms(self, squared_norms: Mapping[str, Tensor]) -> Tensor:
        """Return the norm over all layers, [B], from {layer: squared norm [B]}."""
        return _sum(squared_norms.values()).sqrt()

    def factors(
        self, squared_norms: Mapping[str, Tensor], norms: Tensor
    ) -> dict[str, Tensor]:
        """Return {layer: factors [B]}; layers of one block share one tensor.

        Args:
            squared_norms: {layer: [B]}, finite.
            norms: What ``norms`` makes of them.
        """
        blocks = CLIPPING_STYLES[self.style_name](list(squared_norms))
        bound = self.max_grad_norm / math.sqrt(len(blocks))
        function = CLIPPING_FUNCTIONS[self.function_name]
        if len(blocks) == 1:
            return dict.fromkeys(blocks[0], function(norms, bound))
        factors: dict[str, Tensor] = {}
        for block in blocks:
            own = self.norms({layer: squared_norms[layer] for layer in block})
            factors |= dict.fromkeys(block, function(own, bound))
        return factors


def _sum(values: Iterable[Tensor]) -> Tensor:
    """Add up tensors of one shape."""
    return reduce(torch.add, values)
