"""Clipping factors from per-sample norms.

A clipping function maps a norm to a factor.  A clipping style (``groups``) defines the
parameters that share one norm.  In group g the norm of each sample's clipped gradient
is at most R_g, so the norm of the whole clipped gradient is at most sqrt(sum R_g^2),
the L2 sensitivity of the clipped sum.

Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1 (Abadi);
Bu et al. (2022), arXiv:2206.07136 (automatic, with stability constant 0.01);
Bu et al. (2021), arXiv:2106.07830, section 4 (global).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.torch import Norms

#: Added to the norm by "automatic" clipping, so that no factor exceeds 100 C.  Value of
#: Bu et al. (2022).
STABILITY_CONSTANT = 0.01

ClippingFunction = Callable[[Tensor, float], Tensor]


def abadi_factors(norms: Tensor, max_grad_norm: float) -> Tensor:
    """Returns min(1, C / norm), and 1 for a norm of 0.

    Shapes: norms [B], finite and >= 0 -> [B], in (0, 1].
    """
    # Clamping the norms gives exactly 1 within the bound, and avoids division by 0.
    return _quotients(max_grad_norm, norms.clamp_min(max_grad_norm))


def automatic_factors(norms: Tensor, max_grad_norm: float) -> Tensor:
    """Returns C / (norm + 0.01), which scales every sample to a norm below C.

    Shapes: norms [B], finite and >= 0 -> [B], in (0, 100 C].
    """
    return _quotients(max_grad_norm, norms + STABILITY_CONSTANT)


def global_factors(
    norms: Tensor, max_grad_norm: float, threshold_ratio: float = 1.0
) -> Tensor:
    """Returns C / Z for norms up to Z, and 0 above: large gradients are left out.

    Shapes: norms [B], finite and >= 0 -> [B], 0 or C / Z.

    Args:
        norms: Gradient norms.
        max_grad_norm: Clipping bound C.
        threshold_ratio: Threshold Z, divided by C.
    """
    included = norms <= max_grad_norm * threshold_ratio
    return included.to(norms.dtype) / threshold_ratio


def _quotients(numerator: float, values: Tensor) -> Tensor:
    """Returns numerator / values, and overwrites the values.

    Torch's ``/`` multiplies the reciprocal too, but takes 4 µs longer.
    """
    inverse = values.reciprocal_()
    return inverse if numerator == 1.0 else inverse.mul_(numerator)


CLIPPING_FUNCTIONS: dict[str, ClippingFunction] = {
    "Abadi": abadi_factors,
    "automatic": automatic_factors,
    "global": global_factors,
}


def equal_bounds(max_grad_norm: float, count: int) -> list[float]:
    """Returns C / sqrt(count) for each group; the squares of the bounds sum to C^2."""
    bound = max_grad_norm / math.sqrt(count)
    return [bound] * count


class Clipper:
    """Computes the clipping factors of each sample, group by group.

    Factors of norms that are not finite have no meaning: ``ClippedSum`` leaves such
    samples out.

    Args:
        function: A key of CLIPPING_FUNCTIONS.
        groups: Names of the layers, or of the parameters, that share a norm; see
            ``ClippingGroups``.
        bounds: Bound R_g of each group.
        threshold_ratio: Z / C, for "global" clipping.

    Attributes:
        function_name: A key of CLIPPING_FUNCTIONS.
        groups: Names in each group.
        bounds: Bound R_g of each group for the next batch.
    """

    def __init__(
        self,
        function: str,
        groups: Sequence[Sequence[str]],
        bounds: Sequence[float],
        *,
        threshold_ratio: float = 1.0,
    ) -> None:
        self.function_name = function
        self.groups, self.bounds = groups, bounds
        self._initial_bounds = bounds
        self._function = CLIPPING_FUNCTIONS[function]
        self._max_norm_ratio = math.inf
        if function == "global":
            self._max_norm_ratio = threshold_ratio
            self._function = partial(global_factors, threshold_ratio=threshold_ratio)

    @property
    def max_grad_norm(self) -> float:
        """Largest L2 norm of a sample's clipped gradient: sqrt(sum R_g^2)."""
        return math.hypot(*self.bounds)

    @property
    def max_included_norm(self) -> float:
        """Largest norm that is not left out, for a clipper with one group."""
        return self._max_norm_ratio * self.max_grad_norm

    def rescale(self, factor: float) -> None:
        """Sets the bounds of the next batch to the initial bounds times a factor."""
        self.bounds = [factor * bound for bound in self._initial_bounds]

    def with_bound(self, max_grad_norm: float) -> Self:
        """Returns a clipper with another bound, for the check of clipped norms.

        "Abadi" replaces "global" clipping, which leaves large gradients out instead of
        scaling them, so clipped gradients would not show wrong norms.
        """
        ratio = max_grad_norm / self.max_grad_norm
        name = "Abadi" if self.function_name == "global" else self.function_name
        return type(self)(name, self.groups, [ratio * bound for bound in self.bounds])

    def norms(self, squared_norms: Mapping[str, Tensor]) -> Tensor:
        """Returns the norms over all layers, [B], from {layer: squared norms [B]}."""
        return self.measured_norms(squared_norms).values

    def measured_norms(self, squared_norms: Mapping[str, Tensor]) -> Norms:
        """Returns the norms over all layers, and True if all are finite, if known."""
        squares = list(squared_norms.values())
        return backend_of(squares[0]).roots_of_sums(squares)

    def factors(
        self, squared_norms: Mapping[str, Tensor], norms: Tensor
    ) -> dict[str, Tensor]:
        """Returns {layer: clipping factors [B]}; layers of a group share one tensor.

        Args:
            squared_norms: {layer: squared norms [B]}, finite, of the layers that ran.
            norms: Norms over all layers, [B], as the method ``norms`` returns them.
        """
        groups, function = self.groups, self._function
        if len(groups) == 1:
            bound = self.bounds[0]
            return dict.fromkeys(groups[0], function(norms, bound))
        factors: dict[str, Tensor] = {}
        for group, bound in zip(groups, self.bounds, strict=True):
            ran = {name: squared_norms[name] for name in group if name in squared_norms}
            if ran:
                factors |= dict.fromkeys(ran, function(self.norms(ran), bound))
        return factors
