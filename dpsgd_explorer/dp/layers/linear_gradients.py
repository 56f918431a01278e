"""Per-sample gradients of a linear map y = x W^T + b over T positions.

The gradient of sample i is sum_t g_it x_it^T, and that of its bias sum_t g_it.  Where
``kernels.linear_products`` is compiled it makes both, and their norms before they leave
the registers; elsewhere a batched product does, and the norms read it once more.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.native.linear_products import ROUNDINGS, linear_products
from dpsgd_explorer.dp.layers.base import gradient_squared_norms
from dpsgd_explorer.dp.layers.round_off import AROUND, gamma

#: Covers what rounding takes off a squared norm that was made on the way.
LONGER = 1 + gamma(ROUNDINGS + AROUND, torch.float32)


class LinearGradients(NamedTuple):
    """Gradients of a batch.

    Attributes:
        weight: [B, p, d]; None if it is not trained.
        bias: [B, p]; None if it is not trained.
        made_norms: Squared norms of both together, [B], never too small; None if they
            were not made on the way.
    """

    weight: Tensor | None
    bias: Tensor | None
    made_norms: Tensor | None

    def named(self, weight: str = "weight", bias: str = "bias") -> dict[str, Tensor]:
        """Return {name: gradients} of what is trained."""
        both = {weight: self.weight, bias: self.bias}
        return {name: values for name, values in both.items() if values is not None}

    def squared_norms(self) -> Tensor:
        """Return the squared norms of both together, [B], never too small."""
        if self.made_norms is None:
            return gradient_squared_norms(self.named())
        return self.made_norms


def linear_gradients(
    x: Tensor, g: Tensor, *, weight: bool, bias: bool
) -> LinearGradients:
    """Return the gradients of every sample.

    Args:
        x: Inputs, [B, T, d].
        g: Gradients of the outputs, [B, T, p].
        weight: Whether the weight is trained.
        bias: Whether the bias is trained; one of the two is.
    """
    if weight:
        products = linear_products(x, g, bias=bias, longer=LONGER)
        if products is not None:
            return LinearGradients(*products)
    of_weight = torch.bmm(g.transpose(1, 2), x) if weight else None
    return LinearGradients(of_weight, g.sum(1) if bias else None, None)
