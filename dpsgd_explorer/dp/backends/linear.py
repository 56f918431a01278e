"""Calls of linear maps, their per-sample gradients, and sums over these gradients.

A linear map y = x W^T + b over T positions has the per-sample gradients sum_t g_t x_t^T
of the weight and sum_t g_t of the bias, with g the gradients of y.  Without positions
(T = 1) both are one outer product, whose squared norm is ||g||^2 (||x||^2 + 1).

Source: Goodfellow (2015), arXiv:1510.01799 (T = 1).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor


class LinearMap(NamedTuple):
    """A call of a map y = x W^T + b, whose weight is trained.

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
        weight: [B, p, d]; None if the weight is not trained.
        bias: [B, p]; None if the bias is not trained.
        squared_norms: Squared norms of weight and bias together, [B], never too small;
            None if the backend has not computed them.
    """

    weight: Tensor | None
    bias: Tensor | None
    squared_norms: Tensor | None

    def named(self, weight: str = "weight", bias: str = "bias") -> dict[str, Tensor]:
        """Returns {name: gradients} of the trained parameters."""
        both = {weight: self.weight, bias: self.bias}
        return {name: values for name, values in both.items() if values is not None}


class JoinedMaps(Protocol):
    """Linear maps of one batch whose gradients a backend computes in one call."""

    @property
    def batch_size(self) -> int:
        """Number of samples, B."""

    def products(self, samples: range) -> JoinedGradients:
        """Returns the gradients of consecutive samples by all maps."""


class JoinedGradients(Protocol):
    """Per-sample gradients of several linear maps, in one block of memory."""

    squared_norms: Tensor
    """Squared norms of weight and bias together, [maps, B]; never too small."""

    def add_weighted(
        self, weights: Sequence[Tensor], totals: Sequence[Sequence[Tensor]]
    ) -> None:
        """Adds sum_i weights[m][i] * gradient_i of each map m to the map's totals.

        Args:
            weights: [B] for each map.
            totals: For each map the sum of its weight [p, d], and the sum of its bias
                [p] if the bias is trained.
        """


class OuterProductCall(NamedTuple):
    """A call of a linear layer without positions; weight and bias are trained.

    Attributes:
        inputs: x, [B, d].
        backprops: Gradients g of the outputs, [B, p].
    """

    inputs: Tensor
    backprops: Tensor

    @property
    def kind(self) -> Hashable:
        """Equal for calls whose norms a backend can compute together."""
        x, g = self
        return x.shape[0], x.dtype, g.dtype, g.device


class WeightedCall(NamedTuple):
    """A call, the weights of its samples, and the sums that its gradients are added to.

    Attributes:
        call: x and g.
        weights: [B].
        weight: Sum of the weight's gradients, [p, d].
        bias: Sum of the bias's gradients, [p].
    """

    call: OuterProductCall
    weights: Tensor
    weight: Tensor
    bias: Tensor
