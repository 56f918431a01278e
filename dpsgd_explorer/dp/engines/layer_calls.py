"""The uses of parameters in one pass, and what clipping wants to know of them.

A use is one application of a rule to some parameters: the call of a layer, or a part
of one.  Parameters with one use are left to its rule.  Those with several (tied
weights, a layer called twice) need all their uses at once: the gradient of a sample
is the sum over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.engines.base import GradientSums
from dpsgd_explorer.dp.kernels.precision import accumulation_dtype, in_precision
from dpsgd_explorer.dp.layers.base import (
    GradientRule,
    add_weighted,
    add_weighted_rows,
    gradient_squared_norms,
)
from dpsgd_explorer.dp.layers.outer_products import OuterProduct, squared_norms_of_sum
from dpsgd_explorer.dp.layers.round_off import UNSEEN, sum_of
from dpsgd_explorer.dp.modules.pytree import map_tensors

Name = tuple[str, str]
"""(layer, local name) of a parameter."""


class Target(NamedTuple):
    """Where a gradient belongs: a layer's parameter, or rows of it, start to stop."""

    layer: str
    parameter: str
    start: int = 0
    stop: int | None = None

    @property
    def name(self) -> Name:
        """Which parameter."""
        return self.layer, self.parameter

    @property
    def is_whole(self) -> bool:
        """Whether the gradient is that of all rows."""
        return self.stop is None

    def rows_of(self, values: Tensor) -> Tensor:
        """Return the rows, as a view."""
        return values if self.stop is None else values[self.start : self.stop]


@dataclass(eq=False)
class LayerCall:
    """One use: what went in, and the gradient that came back to what came out.

    Attributes:
        rule: Its algebra.
        layer: The module, or a part of one.
        activations: The rule's record, samples first.
        backprops: [B, ...].
        targets: {local name: where its gradient belongs}, trainable ones only.
        parameters: {local name: the parameter}, the same ones.
        ghost: Whether norms are made without gradients.
        keeps: Whether gradients made for the norm stay for the sum.
        wide: Whether the ghost norm and its sum are made in float64.
        gradients: Those that stayed, {local name: [B, *shape]}.
    """

    rule: GradientRule[Any, Any]
    layer: nn.Module
    activations: Any
    backprops: Tensor
    targets: Mapping[str, Target]
    parameters: Mapping[str, nn.Parameter]
    ghost: bool
    keeps: bool
    wide: bool = False
    gradients: dict[str, Tensor] = field(default_factory=dict)

    def squared_norms(self) -> Tensor:
        """Return [B], over all parameters of the use together."""
        if self.ghost:
            found = self.rule.squared_norms(self.layer, *self._record())
            return found.to(self.dtype)
        gradients = self.per_sample_gradients()
        if self.keeps:
            self.gradients = gradients
        return gradient_squared_norms(gradients)

    def _record(self) -> tuple[Any, Tensor]:
        """Return activations and backprops, in float64 if so decided."""
        if not self.wide:
            return self.activations, self.backprops
        activations = map_tensors(
            lambda x: in_precision(x, torch.float64), self.activations
        )
        return activations, self.backprops.double()

    @property
    def dtype(self) -> torch.dtype:
        """Of gradients and their norms."""
        return accumulation_dtype(next(iter(self.parameters.values())).dtype)

    def excess(self) -> float:
        """Return by how much float32 makes the norm longer; 0 if made of gradients."""
        if not self.ghost or self.dtype is not torch.float32:
            return 0.0
        return self.rule.excess(self.layer, self.activations, self.backprops)

    def per_sample_gradients(self) -> dict[str, Tensor]:
        """Return {local name: [B, *shape]}."""
        return self.rule.per_sample_gradients(
            self.layer, self.activations, self.backprops
        )

    def factors(self) -> dict[str, OuterProduct] | None:
        """Return the gradients as outer products, if they have that form."""
        return self.rule.factors(self.layer, *self._record())

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        """Add sum_i weights[layer][i] * gradient_i to the sums of each layer."""
        into = {
            local: t.rows_of(sums[t.layer][t.parameter])
            for local, t in self.targets.items()
        }
        owners = {t.layer: weights[t.layer] for t in self.targets.values()}
        if len({id(each) for each in owners.values()}) == 1:
            self._add_weighted(next(iter(owners.values())), into)
            return
        for owner, own_weights in owners.items():  # each layer by its own factors
            own = {n for n, target in self.targets.items() if target.layer == owner}
            scratch = {n: s if n in own else s.clone() for n, s in into.items()}
            self._add_weighted(own_weights, scratch)

    def add_weighted_to_one(
        self, weights: Mapping[str, Tensor], sums: GradientSums
    ) -> None:
        """Do the same where all parameters belong to one layer."""
        layer = next(iter(self.targets.values())).layer
        own = sums[layer]
        into = {local: t.rows_of(own[t.parameter]) for local, t in self.targets.items()}
        self._add_weighted(weights[layer], into)

    def _add_weighted(self, weights: Tensor, sums: Mapping[str, Tensor]) -> None:
        """Add what was measured: gradients that the norm was made of, or their sum."""
        if not self.ghost:
            gradients = self.gradients or self.per_sample_gradients()
            add_weighted(gradients, weights, sums)
            return
        record = self._record()
        if not self.wide:
            self.rule.weighted_gradients(self.layer, *record, weights, sums)
            return
        own = {
            name: torch.zeros_like(each, dtype=torch.float64)
            for name, each in sums.items()
        }
        self.rule.weighted_gradients(self.layer, *record, weights.double(), own)
        for name, total in sums.items():
            total.add_(own[name])

    def take(self, index: Tensor | slice) -> Self:
        """Return the same for some of the samples."""
        return replace(
            self,
            activations=map_tensors(lambda x: x[index], self.activations),
            backprops=self.backprops[index],
            gradients={name: g[index] for name, g in self.gradients.items()},
        )

    def gradient_bytes(self) -> int:
        """Return what instantiating one sample's gradient takes; 0 if nothing does."""
        if self.ghost:
            return 0
        return sum(p.numel() * p.element_size() for p in self.parameters.values())


class LayerCallGroup(Protocol):
    """One use, or several that share parameters."""

    def squared_norms(self) -> dict[str, Tensor]:
        """Return {layer: [B]}."""

    def per_sample_gradients(self) -> dict[Name, Tensor]:
        """Return {whole parameter: [B, *shape]}."""

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        """Add sum_i weights[layer][i] * gradient_i to the sums."""

    def take(self, index: Tensor | slice) -> Self:
        """Return the same for some of the samples."""

    def gradient_bytes(self) -> int:
        """Return what instantiating one sample's gradients takes."""


class SingleLayerCall:
    """The only use of its parameters, which belong to one layer."""

    def __init__(self, use: LayerCall) -> None:
        self._use = _widened([use])[0]

    def squared_norms(self) -> dict[str, Tensor]:
        layer = next(iter(self._use.targets.values())).layer
        return {layer: self._use.squared_norms()}

    def per_sample_gradients(self) -> dict[Name, Tensor]:
        return summed_gradients([self._use])

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        self._use.add_weighted_to_one(weights, sums)

    def take(self, index: Tensor | slice) -> Self:
        return type(self)(self._use.take(index))

    def gradient_bytes(self) -> int:
        return self._use.gradient_bytes()


class SharedLayerCalls:
    """Uses that have parameters in common, or parameters of several layers.

    Without gradients only where every use is an outer product.

    The sum is made of what was measured, as for a single use.
    """

    def __init__(self, uses: list[LayerCall]) -> None:
        self._uses = _widened(uses)
        self._instantiates = not all(use.ghost for use in uses)
        self._gradients: dict[Name, Tensor] = {}

    def squared_norms(self) -> dict[str, Tensor]:
        """Return {layer: [B]}, by cross terms where every use is an outer product."""
        if not self._instantiates:
            factors = [use.factors() for use in self._uses]
            products = [each for each in factors if each is not None]
            if len(products) == len(factors):
                return added_by_layer(self._norms_by_cross_terms(products))
            self._instantiates = True
        gradients = summed_gradients(self._uses)
        if all(use.keeps and not use.ghost for use in self._uses):
            self._gradients = gradients
        return added_by_layer(
            (layer, gradient_squared_norms({parameter: gradient}))
            for (layer, parameter), gradient in gradients.items()
        )

    def _norms_by_cross_terms(
        self, factors: list[dict[str, OuterProduct]]
    ) -> Iterable[tuple[str, Tensor]]:
        gathered: dict[Name, list[OuterProduct]] = {}
        for use, own in zip(self._uses, factors, strict=True):
            for local, product in own.items():
                target = use.targets[local]
                moved = replace(product, start=target.start)
                gathered.setdefault(target.name, []).append(moved)
        for (layer, _), products in gathered.items():
            yield layer, squared_norms_of_sum(products).to(self._uses[0].dtype)

    def per_sample_gradients(self) -> dict[Name, Tensor]:
        return summed_gradients(self._uses)

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        if not self._instantiates:
            for use in self._uses:
                use.add_weighted(weights, sums)
            return
        gradients = self._gradients or summed_gradients(self._uses)
        for (layer, parameter), gradient in gradients.items():
            add_weighted_rows(gradient, weights[layer], sums[layer][parameter])

    def take(self, index: Tensor | slice) -> Self:
        taken = type(self)([use.take(index) for use in self._uses])
        taken._instantiates = self._instantiates
        taken._gradients = {name: g[index] for name, g in self._gradients.items()}
        return taken

    def gradient_bytes(self) -> int:
        return sum(use.gradient_bytes() for use in self._uses)


def grouped(uses: Iterable[LayerCall]) -> list[LayerCallGroup]:
    """Return the uses, those that share a parameter together."""
    group_of: dict[LayerCall, list[LayerCall]] = {}
    users: dict[Name, list[tuple[Target, LayerCall]]] = {}
    for use in uses:
        group_of[use] = [use]
        for target in use.targets.values():
            known = users.setdefault(target.name, [])
            for other, user in known:
                if _overlap(target, other):
                    _join(group_of, user, use)
            known.append((target, use))
    groups = {id(group): group for group in group_of.values()}
    return [_group(group) for group in groups.values()]


def _join(
    group_of: dict[LayerCall, list[LayerCall]], first: LayerCall, second: LayerCall
) -> None:
    into, group = group_of[first], group_of[second]
    if into is not group:
        into += group
        group_of.update(dict.fromkeys(group, into))


def _overlap(a: Target, b: Target) -> bool:
    if a.stop is None or b.stop is None:
        return True
    return max(a.start, b.start) < min(a.stop, b.stop)


def _group(uses: list[LayerCall]) -> LayerCallGroup:
    layers = {target.layer for use in uses for target in use.targets.values()}
    return (
        SingleLayerCall(uses[0])
        if len(uses) == len(layers) == 1
        else SharedLayerCalls(uses)
    )


def summed_gradients(uses: Iterable[LayerCall]) -> dict[Name, Tensor]:
    """Return {parameter: [B, *shape]}, summed over its uses."""
    total: dict[Name, Tensor] = {}
    for use in uses:
        for local, gradient in use.per_sample_gradients().items():
            target = use.targets[local]
            if target.is_whole and target.name not in total:
                total[target.name] = gradient
                continue
            shape = len(gradient), *use.parameters[local].shape
            whole = gradient.new_zeros(shape)
            target.rows_of(whole.transpose(0, 1)).transpose(0, 1).copy_(gradient)
            before = total.get(target.name)
            total[target.name] = whole if before is None else whole.add_(before)
    return total


def _widened(uses: list[LayerCall]) -> list[LayerCall]:
    """Return the uses in float64 where float32 would be seen, by shapes alone.

    The excess grows with the power 3/2 of the positions, over which uses add up.
    """
    if sum(use.excess() for use in uses) * math.sqrt(len(uses)) <= UNSEEN:
        return uses
    return [replace(use, wide=use.ghost) for use in uses]


def added_by_layer(norms: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Return {layer: sum of its squared norms}, added in float64."""
    parts: dict[str, list[Tensor]] = {}
    for layer, values in norms:
        parts.setdefault(layer, []).append(values)
    return {layer: sum_of(own) for layer, own in parts.items()}
