"""The forms of a layer call that every backend can measure and sum by products.

A linear map y = x W^T + b over T positions has the per-sample gradients sum_t g_t x_t^T
of the weight and sum_t g_t of the bias.  Without positions (T = 1) these are one outer
product, whose squared norm is ||g||^2 (||x||^2 + 1).

Source: Goodfellow (2015), arXiv:1510.01799 (T = 1).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor


class LinearMap(NamedTuple):
    """A map y = x W^T + b of a batch, whose weight is trained.

    Attributes:
        inputs: x, [B, T, d].
        backprops: Gradients g of the outputs, [B, T, p].
        bias: If True, the bias is trained.
    """

    inputs: Tensor
    backprops: Tensor
    bias: bool


class LinearGradients(NamedTuple):
    """Per-sample gradients of a linear map.

    Attributes:
        weight: [B, p, d]; None if it is not trained.
        bias: [B, p]; None if it is not trained.
        squared_norms: Squared norms of both together, [B], never too small; None if
            they were not computed on the way.
    """

    weight: Tensor | None
    bias: Tensor | None
    squared_norms: Tensor | None

    def named(self, weight: str = "weight", bias: str = "bias") -> dict[str, Tensor]:
        """Return {name: gradients} of what is trained."""
        both = {weight: self.weight, bias: self.bias}
        return {name: values for name, values in both.items() if values is not None}


class JoinedMaps(Protocol):
    """Linear maps of one batch whose gradients a backend computes in one call."""

    @property
    def batch_size(self) -> int:
        """B."""

    def products(self, samples: range) -> JoinedGradients:
        """Return the gradients of consecutive samples by all maps."""


class JoinedGradients(Protocol):
    """Per-sample gradients of several linear maps, in one piece of memory."""

    squared_norms: Tensor
    """[maps, B], of each map's weight and bias together; never too small."""

    def add_weighted(
        self, weights: Sequence[Tensor], totals: Sequence[Sequence[Tensor]]
    ) -> None:
        """Add sum_i weights[m][i] * gradient_i of each map m to its totals.

        Args:
            weights: [B] of each map.
            totals: Sum of the weight [p, d], and of the bias [p] if it is trained.
        """


class OuterProductCall(NamedTuple):
    """A call of a linear layer without positions; weight and bias are trained.

    Attributes:
        inputs: x, [B, d].
        backprops: g, [B, p].
    """

    inputs: Tensor
    backprops: Tensor

    @property
    def kind(self) -> Hashable:
        """Equal for calls that may be measured together."""
        x, g = self
        return x.shape[0], x.dtype, g.dtype, g.device


class WeightedCall(NamedTuple):
    """A call, the factor of each sample, and the sums to which it is added.

    Attributes:
        call: x and g.
        weights: [B].
        weight: Sum of the gradients of the weight, [p, d].
        bias: Sum of the gradients of the bias, [p].
    """

    call: OuterProductCall
    weights: Tensor
    weight: Tensor
    bias: Tensor
