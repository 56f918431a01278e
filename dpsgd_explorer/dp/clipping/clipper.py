"""Clipping factors from per-sample norms.

A clipping function maps a norm to a factor; a clipping style (``groups``) defines which
parameters share one norm.  Group g keeps each sample within its bound R_g, so the whole
gradient stays within sqrt(sum R_g^2), the L2 sensitivity of the clipped sum.

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

#: Added to the norm under "automatic", so that no factor exceeds 100 C.
STABILITY = 0.01

ClippingFunction = Callable[[Tensor, float], Tensor]


def abadi_factors(norms: Tensor, max_grad_norm: float) -> Tensor:
    """Return min(1, C / norm); a norm of 0 gives 1.

    Shapes: norms [B], finite and >= 0 -> [B], in (0, 1].
    """
    # Clamped first: exactly 1 within the bound, and no division by 0.
    return _over(max_grad_norm, norms.clamp_min(max_grad_norm))


def automatic_factors(norms: Tensor, max_grad_norm: float) -> Tensor:
    """Return C / (norm + 0.01), which scales every sample to just below C.

    Shapes: norms [B], finite and >= 0 -> [B], in (0, 100 C].
    """
    return _over(max_grad_norm, norms + STABILITY)


def global_factors(
    norms: Tensor, max_grad_norm: float, threshold_ratio: float = 1.0
) -> Tensor:
    """Return C / Z up to a norm of Z, and 0 above: long gradients are left out.

    Shapes: norms [B], finite and >= 0 -> [B], 0 or C / Z.

    Args:
        norms: Gradient norms.
        max_grad_norm: Clipping bound C.
        threshold_ratio: Z / C.
    """
    included = norms <= max_grad_norm * threshold_ratio
    return included.to(norms.dtype) / threshold_ratio


def _over(number: float, values: Tensor) -> Tensor:
    """Return number / values, as torch computes it, in place; / takes 4 µs longer."""
    inverse = values.reciprocal_()
    return inverse if number == 1.0 else inverse.mul_(number)


CLIPPING_FUNCTIONS: dict[str, ClippingFunction] = {
    "Abadi": abadi_factors,
    "automatic": automatic_factors,
    "global": global_factors,
}


def equal_bounds(max_grad_norm: float, count: int) -> list[float]:
    """Return C / sqrt(count) per group: the root of their sum of squares is C."""
    bound = max_grad_norm / math.sqrt(count)
    return [bound] * count


class Clipper:
    """Scales each sample's gradient into a bound, group by group.

    | norm of a group | factor |
    |---|---|
    | finite | the clipping function's |
    | infinite, NaN, or its square overflows | the sample contributes 0 in every group |

    Args:
        function: A key of CLIPPING_FUNCTIONS.
        groups: Names of the layers that share a norm (or of parameters, as norms are
            reported).
        bounds: R_g of each group.
        threshold_ratio: Z / C, for "global".

    Attributes:
        bounds: R_g of each group for the next batch.
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
        self._longest_ratio = math.inf
        if function == "global":
            self._longest_ratio = threshold_ratio
            self._function = partial(global_factors, threshold_ratio=threshold_ratio)

    @property
    def max_grad_norm(self) -> float:
        """Largest L2 norm that one sample adds to the sum."""
        return math.hypot(*self.bounds)

    @property
    def longest_included(self) -> float:
        """Longest gradient of a single group that is not left out."""
        return self._longest_ratio * self.max_grad_norm

    def rescale(self, factor: float) -> None:
        """Set the bounds of the next batch to the initial ones times a factor."""
        self.bounds = [factor * bound for bound in self._initial_bounds]

    def shrunk_to(self, max_grad_norm: float) -> Self:
        """Return a clipper with this bound, to measure clipped norms.

        "global" is replaced by "Abadi": it leaves long gradients out instead of scaling
        them, so a clipped norm would not test the norms.
        """
        ratio = max_grad_norm / self.max_grad_norm
        name = "Abadi" if self.function_name == "global" else self.function_name
        return type(self)(name, self.groups, [ratio * bound for bound in self.bounds])

    def norms(self, squared_norms: Mapping[str, Tensor]) -> Tensor:
        """Return the norm over all layers, [B], from {layer: squared norm [B]}."""
        return self.measured_norms(squared_norms).values

    def measured_norms(self, squared_norms: Mapping[str, Tensor]) -> Norms:
        """Return the same, and whether all are finite."""
        squares = list(squared_norms.values())
        return backend_of(squares[0]).roots_of_sums(squares)

    def factors(
        self, squared_norms: Mapping[str, Tensor], norms: Tensor
    ) -> dict[str, Tensor]:
        """Return {layer: factors [B]}; layers of one group share one tensor.

        Args:
            squared_norms: {layer: [B]}, finite; layers that did not run are missing.
            norms: Norms over all layers, [B], as ``norms`` returns them.
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
