"""Rule for a parameter that was handed out once for each sample.

The gradient of the i-th copy is the gradient of sample i: nothing is left to do.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from dpsgd_explorer.dp.layers.base import GradientRule


class ExpandedRule(GradientRule[nn.Module, tuple[()]]):
    """Output: the parameter ``value``, [B, *shape]."""

    def record(self, layer: nn.Module, args: Any, kwargs: Any) -> tuple[()]:
        return ()

    def per_sample_gradients(
        self, layer: nn.Module, activations: tuple[()], backprops: Tensor
    ) -> dict[str, Tensor]:
        return {"value": backprops}
