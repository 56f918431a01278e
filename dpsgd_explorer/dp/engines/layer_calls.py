"""One layer call with its backprops: norms and weighted sum by its rule.

A layer call is one application of a rule: its activations x [B, T, d] and its backprops
g [B, T, p].  For a linear layer the gradient of sample i is sum_t g_it x_it^T, [p, d],
and there are two methods for its norm (``LayerCall.ghost``):

- *instantiate* the gradients [B, p, d], then compute their norms;
- the *ghost norm*, of two Gram matrices [B, T, T] and no gradient:
  ||sum_t g_t x_t^T||^2 = sum_st (x_s.x_t)(g_s.g_t).

Worked: one sample, T = 2, x = (1, 0), (1, 1) and g = 2, -1.  The gradient is
2 (1, 0) - (1, 1) = (1, -1), squared norm 2.  The Gram matrices are [[1, 1], [1, 2]] of
x and [[4, -2], [-2, 1]] of g; the sum of their products is 4 - 2 - 2 + 2 = 2.

Sources: Goodfellow (2015), arXiv:1510.01799 (T = 1); Rochette et al. (2019),
arXiv:1912.06015 (instantiated gradients of convolutions); Li et al. (2022),
arXiv:2110.05679, section 4 (ghost norm).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import LinearMap, OuterProductCall
from dpsgd_explorer.dp.backends.precision import in_precision
from dpsgd_explorer.dp.engines.base import GradientSums
from dpsgd_explorer.dp.layers.base import GradientRule, add_weighted
from dpsgd_explorer.dp.layers.cross_terms import OuterProduct
from dpsgd_explorer.dp.layers.ghost_norm import GhostNorm
from dpsgd_explorer.dp.modules.pytree import map_tensors
from dpsgd_explorer.errors import UnsupportedModuleError

#: (unit, local name) of a parameter.
ParameterKey = tuple[str, str]


class GradientTarget(NamedTuple):
    """The parameter that a gradient belongs to, or its rows ``start`` to ``stop``."""

    unit: str
    parameter: str
    start: int = 0
    stop: int | None = None

    @property
    def key(self) -> ParameterKey:
        """Key of the parameter."""
        return self.unit, self.parameter

    @property
    def is_whole(self) -> bool:
        """Returns True if the target is the whole parameter."""
        return self.stop is None

    def of(self, sums: GradientSums) -> Tensor:
        """Returns the sum that the gradient is added to, as a view."""
        total = sums[self.unit][self.parameter]
        return total if self.stop is None else total[self.start : self.stop]


@dataclass(frozen=True, eq=False)
class TrainedParameters:
    """The trained parameters of a layer, or of a part of one.

    They are fixed while an engine is attached, so all calls of the layer share them.

    Attributes:
        targets: {local name: target of the gradient}.
        parameters: {local name: parameter}, with the names of ``targets``.
        keys: Key of each parameter.
        units: The clipping units of the parameters; usually one.
        shapes: {local name: shape of the gradient of a sample}.
    """

    targets: Mapping[str, GradientTarget]
    parameters: Mapping[str, nn.Parameter]
    keys: tuple[ParameterKey, ...] = field(init=False)
    units: tuple[str, ...] = field(init=False)
    shapes: Mapping[str, torch.Size] = field(init=False)

    def __post_init__(self) -> None:
        keys = tuple(target.key for target in self.targets.values())
        object.__setattr__(self, "keys", keys)
        units = tuple(dict.fromkeys(unit for unit, _ in keys))
        object.__setattr__(self, "units", units)
        shapes = {name: self._shape(name) for name in self.targets}
        object.__setattr__(self, "shapes", shapes)

    def _shape(self, name: str) -> torch.Size:
        shape, target = self.parameters[name].shape, self.targets[name]
        if target.stop is None:
            return shape
        return torch.Size((target.stop - target.start, *shape[1:]))


@dataclass(eq=False)
class LayerCall:
    """One layer call with the gradient of its output.

    Attributes:
        rule: The rule of the layer.
        layer: The module, or a part of one.
        activations: The tensors that the rule saved, samples first.
        backprops: Gradient of the loss with respect to the output, [B, ...].
        trained: The trained parameters of the layer.
        dtype: Dtype of norms and sums; gradients on a device may be bfloat16.
        ghost: Computes norms and sums without gradients; None if they are instantiated.
        keeps: If True, gradients instantiated for the norm are stored for the sum.
        wide: If True, the ghost norm and its sum are computed in float64.
        gradients: The stored gradients, {local name: [B, *shape]}.
    """

    rule: GradientRule[Any, Any]
    layer: nn.Module
    activations: Any
    backprops: Tensor
    trained: TrainedParameters
    dtype: torch.dtype
    ghost: GhostNorm[Any, Any] | None
    keeps: bool
    wide: bool = False
    gradients: dict[str, Tensor] = field(default_factory=dict)

    def squared_norms(self) -> Tensor:
        """Returns squared norms over all parameters of the call together, [B]."""
        if self.ghost is not None:
            norms = self.ghost.squared_norms(self.layer, *self._inputs())
            return norms.to(self.dtype)
        gradients, norms = self.rule.measured_gradients(
            self.layer, self.activations, self.backprops
        )
        if self.keeps:
            self.gradients = gradients
        return norms

    def outer_product(self) -> OuterProductCall | None:
        """Returns the call as an outer product; None if it has no such form.

        The backend computes norms of several outer products together.  The call must be
        a linear map of one position, whose weight and bias are trained.
        """
        if self.ghost is None or self.wide or self.backprops.dtype is not self.dtype:
            return None
        maps = self._linear_form()
        single = maps.get("")
        if single is None or not single.bias or single.inputs.shape[1] != 1:
            return None
        return OuterProductCall(single.inputs[:, 0], single.backprops[:, 0])

    def linear_maps(self) -> Mapping[str, LinearMap]:
        """Returns the linear maps, if the backend joins them with other maps."""
        if self.ghost is not None or not self.keeps:
            return {}
        maps = self._linear_form()
        backend = backend_of(self.backprops)
        return maps if all(map(backend.can_join, maps.values())) else {}

    def _linear_form(self) -> Mapping[str, LinearMap]:
        """Returns the rule's linear maps.

        Raises:
            UnsupportedModuleError: the maps do not have the shapes of the trained
                parameters; compiled code would write beyond their sums.
        """
        maps = self.rule.linear_form(self.layer, self.activations, self.backprops)
        if maps and _parameter_shapes(maps, len(self.backprops)) != self.trained.shapes:
            shapes = {name: list(shape) for name, shape in self.trained.shapes.items()}
            raise UnsupportedModuleError(
                f"{type(self.rule).__name__}.linear_form must return maps with inputs "
                "[B, T, d] and backprops [B, T, p] for a weight [p, d] and a bias [p]. "
                f"The trained parameters have the shapes {shapes}. Correct the rule."
            )
        return maps

    def joins_layers(self) -> bool:
        """Returns True if its gradients are stored and joined with other layers'."""
        stores = self.ghost is None and self.keeps and self.dtype is torch.float32
        return stores and backend_of(self.backprops).joins_layers

    def _inputs(self) -> tuple[Any, Tensor]:
        """Returns activations and backprops, in float64 if the call is ``wide``."""
        if not self.wide:
            return self.activations, self.backprops
        activations = map_tensors(
            lambda x: in_precision(x, torch.float64), self.activations
        )
        return activations, self.backprops.double()

    def inflation(self) -> float:
        """Returns the relative lengthening of the ghost norm by float32's bounds.

        It is 0 if gradients are instantiated, because their norms need no such bound.
        """
        if self.ghost is None or self.dtype is not torch.float32:
            return 0.0
        return self.ghost.inflation(self.layer, self.activations, self.backprops)

    def materialize(self) -> dict[str, Tensor]:
        """Returns {local name: gradients, [B, *shape]}."""
        return self.rule.per_sample_gradients(
            self.layer, self.activations, self.backprops
        )

    def has_ids(self) -> bool:
        """Returns True if most rows of the gradients are 0, as for an embedding."""
        return self.rule.ghost_norm is not None and self.rule.ghost_norm.has_ids

    def added_to(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns {local name: sum of the call's and other gradients, [B, *shape]}.

        Supported only if ``has_ids``.

        Args:
            gradients: {local name: gradients of other calls, [B, *shape]}.
        """
        assert self.rule.ghost_norm is not None
        inputs = self.layer, self.activations, self.backprops
        products = self.rule.ghost_norm.outer_products(*inputs) or {}
        return {
            name: product.rows_added_to(gradients[name])
            for name, product in products.items()
        }

    def outer_products(self) -> dict[str, OuterProduct] | None:
        """Returns the gradients as outer products, if they have that form."""
        if self.ghost is None:
            return None
        return self.ghost.outer_products(self.layer, *self._inputs())

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        """Adds sum_i weights[unit][i] * g_i to the sums of every unit of the call."""
        targets = self.trained.targets
        totals = {name: target.of(sums) for name, target in targets.items()}
        by_unit = {unit: weights[unit] for unit in self.trained.units}
        # If the whole gradient is clipped together, all units have one weight vector,
        # and the rule runs once.
        if len({id(vector) for vector in by_unit.values()}) == 1:
            self._add_weighted(next(iter(by_unit.values())), totals)
            return
        # Otherwise the rule runs once per unit.  Gradients of the other units are added
        # to copies, which are discarded.
        for unit, vector in by_unit.items():
            scratch = {
                name: total if targets[name].unit == unit else total.clone()
                for name, total in totals.items()
            }
            self._add_weighted(vector, scratch)

    def _add_weighted(self, weights: Tensor, sums: Mapping[str, Tensor]) -> None:
        """Adds the sum by the method that computed the norm.

        The two methods round differently.  A norm by one method and a sum by the other
        would let a contribution exceed C by the difference.
        """
        if self.ghost is None:
            gradients = self.gradients or self.materialize()
            add_weighted(gradients, weights, sums)
            return
        inputs = self._inputs()
        backend = backend_of(weights)
        if backend.is_async:
            leave_out = partial(backend.leave_out, weights=weights)
            inputs = map_tensors(leave_out, inputs)
        if not self.wide:
            self.ghost.add_weighted(self.layer, *inputs, weights, sums)
            return
        wide = {
            name: torch.zeros_like(total, dtype=torch.float64)
            for name, total in sums.items()
        }
        self.ghost.add_weighted(self.layer, *inputs, weights.double(), wide)
        for name, total in sums.items():
            total.add_(wide[name])

    def take(self, index: Tensor | slice) -> Self:
        """Returns the call for some of the samples."""
        return replace(
            self,
            activations=map_tensors(lambda x: x[index], self.activations),
            backprops=self.backprops[index],
            gradients={name: g[index] for name, g in self.gradients.items()},
        )

    def gradient_bytes(self) -> int:
        """Returns the bytes of one sample's instantiated gradients; 0 for a ghost norm.

        A ``nn.Linear(784, 256)`` in float32 has 785 * 256 * 4 = 803,840.
        """
        if self.ghost is not None:
            return 0
        numbers = sum(p.numel() for p in self.trained.parameters.values())
        return numbers * self.backprops.element_size()


def _parameter_shapes(
    maps: Mapping[str, LinearMap], size: int
) -> dict[str, tuple[int, ...]]:
    """Returns {local name: shape} of the parameters of linear maps.

    Returns {} if a map does not have ``size`` samples, or inputs and backprops have
    different positions.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for suffix, (x, g, bias) in maps.items():
        if not x.dim() == g.dim() == 3 or x.shape[:2] != g.shape[:2] or len(x) != size:
            return {}
        shapes[f"weight{suffix}"] = (g.shape[2], x.shape[2])
        if bias:
            shapes[f"bias{suffix}"] = (g.shape[2],)
    return shapes
