"""Layer calls in groups that share parameters, and the norms of their sums.

A parameter with several calls (tied weights, a layer called twice) has as its gradient
the sum over its calls, and the norm of a sum is not the sum of the norms:

    ||a + b||^2 = ||a||^2 + ||b||^2 + 2 <a, b>

For a = (1, 0) and b = (-1, 1) that is 1 + 2 - 2 = 1, not 3.  Calls of one parameter are
therefore one group, :class:`SharedLayerCalls`, which adds the cross terms <a, b> of
each pair.  A call that shares nothing, the usual case, is a :class:`SingleLayerCall`.

Source: derived in ``layers.outer_products``, from the ghost norm of Li et al. (2022),
arXiv:2110.05679, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import (
    LinearMap,
    OuterProductCall,
    WeightedCall,
)
from dpsgd_explorer.dp.engines.base import GradientSums
from dpsgd_explorer.dp.engines.layer_calls import (
    GradientTarget,
    LayerCall,
    ParameterKey,
)
from dpsgd_explorer.dp.layers.base import gradient_squared_norms
from dpsgd_explorer.dp.layers.outer_products import OuterProduct, squared_norms_of_sum
from dpsgd_explorer.dp.layers.round_off import UNSEEN


class LayerCallGroup(Protocol):
    """One layer call, or several that share parameters."""

    def squared_norms(self) -> list[tuple[str, Tensor]]:
        """Return squared norms [B], each with its unit, which may have several."""

    def single_position(self) -> tuple[str, OuterProductCall] | None:
        """Return the unit and its one call, if that can be measured with others."""

    def materialize(self) -> dict[ParameterKey, Tensor]:
        """Return {parameter: gradients, [B, *shape]}."""

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        """Add sum_i weights[unit][i] * g_i to the sums."""

    def take(self, index: Tensor | slice) -> Self:
        """Return the group for some of the samples."""

    def gradient_bytes(self) -> int:
        """Return the bytes of one sample's instantiated gradients."""

    def keys(self) -> frozenset[ParameterKey]:
        """Return the parameters of the calls."""


class SingleLayerCall:
    """The only call of its parameters, which belong to one unit."""

    def __init__(self, call: LayerCall) -> None:
        single = call.single_position()
        if single is None and call.excess() > UNSEEN:
            call = replace(call, wide=True)
        self._call = call
        self._single_position = None if single is None else (self.unit, single)

    @property
    def unit(self) -> str:
        """What its parameters belong to."""
        return next(iter(self._call.targets.values())).unit

    def squared_norms(self) -> list[tuple[str, Tensor]]:
        return [(self.unit, self._call.squared_norms())]

    def single_position(self) -> tuple[str, OuterProductCall] | None:
        return self._single_position

    def linear_maps(self) -> Mapping[str, LinearMap]:
        """Return its maps, if their gradients may be made together with others'."""
        return self._call.linear_maps()

    def totals_of(self, suffix: str, sums: GradientSums) -> list[Tensor]:
        """Return what belongs to a map's weight, and to its bias if it is trained."""
        return self._call.totals_of(suffix, sums)

    def joins_layers(self) -> bool:
        """Whether its gradients may be measured and summed with others' on a device."""
        return self._call.joins_layers()

    def make_gradients(self) -> list[tuple[GradientTarget, Tensor]]:
        """Return the gradients, [B, *shape], and where they belong."""
        made = self._call.materialize()
        return [(self._call.targets[name], gradient) for name, gradient in made.items()]

    def materialize(self) -> dict[ParameterKey, Tensor]:
        return summed_gradients([self._call])

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        self._call.add_weighted_to_one(weights, sums)

    def take(self, index: Tensor | slice) -> Self:
        return type(self)(self._call.take(index))

    def gradient_bytes(self) -> int:
        return self._call.gradient_bytes()

    def keys(self) -> frozenset[ParameterKey]:
        return frozenset(target.key for target in self._call.targets.values())


class SharedLayerCalls:
    """Calls that share parameters, or one call with parameters of several units.

    Norms are computed without gradients only where every call is a sum of outer
    products; else the gradients of all calls are instantiated and added first.  The
    weighted sum then adds the same gradients that the norm was computed of.
    """

    def __init__(self, calls: list[LayerCall]) -> None:
        self._calls = _widened(calls)
        self._instantiates = not all(call.ghost for call in calls)
        self._gradients: dict[ParameterKey, Tensor] = {}

    def squared_norms(self) -> list[tuple[str, Tensor]]:
        """Return them by cross terms, where every call is a sum of outer products."""
        if not self._instantiates:
            factors = [call.factors() for call in self._calls]
            products = [product for product in factors if product is not None]
            if len(products) == len(factors):
                return list(self._norms_by_cross_terms(products))
            self._instantiates = True
        gradients = summed_gradients(self._calls)
        # The bytes of a ghost call are not counted: alone it must not be stored.
        keeps = all(call.keeps for call in self._calls)
        if keeps and not all(call.ghost for call in self._calls):
            self._gradients = gradients
        return [
            (unit, gradient_squared_norms({parameter: gradient}))
            for (unit, parameter), gradient in gradients.items()
        ]

    def single_position(self) -> None:
        """Return None: what is shared is measured by its cross terms."""

    def _norms_by_cross_terms(
        self, factors: list[dict[str, OuterProduct]]
    ) -> Iterable[tuple[str, Tensor]]:
        gathered: dict[ParameterKey, list[OuterProduct]] = {}
        for call, products in zip(self._calls, factors, strict=True):
            for local, product in products.items():
                target = call.targets[local]
                # Calls may use different rows of one weight (the projections of
                # attention); their cross term covers the rows they share.
                moved = replace(product, start=target.start)
                gathered.setdefault(target.key, []).append(moved)
        for (unit, _), products_of_one in gathered.items():
            norms = squared_norms_of_sum(products_of_one)
            yield unit, norms.to(self._calls[0].dtype)

    def joins_layers(self) -> bool:
        """Whether its gradients may be measured and summed with others' on a device."""
        making = [call for call in self._calls if not call.ghost]
        return bool(making) and all(call.joins_layers() for call in making)

    def make_gradients(self) -> list[tuple[GradientTarget, Tensor]]:
        """Return the gradients, [B, *shape], and where they belong."""
        made = self.materialize()
        return [(GradientTarget(*key), gradient) for key, gradient in made.items()]

    def materialize(self) -> dict[ParameterKey, Tensor]:
        return summed_gradients(self._calls)

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        if not self._instantiates:
            for call in self._calls:
                call.add_weighted(weights, sums)
            return
        gradients = self._gradients or summed_gradients(self._calls)
        backend = backend_of(next(iter(weights.values())))
        backend.add_weighted(
            list(gradients.values()),
            [weights[unit] for unit, _ in gradients],
            [sums[unit][parameter] for unit, parameter in gradients],
        )

    def take(self, index: Tensor | slice) -> Self:
        taken = type(self)([call.take(index) for call in self._calls])
        taken._instantiates = self._instantiates
        taken._gradients = {name: g[index] for name, g in self._gradients.items()}
        return taken

    def gradient_bytes(self) -> int:
        return sum(call.gradient_bytes() for call in self._calls)

    def keys(self) -> frozenset[ParameterKey]:
        return frozenset(t.key for call in self._calls for t in call.targets.values())


def grouped(calls: Iterable[LayerCall]) -> list[LayerCallGroup]:
    """Return the calls in groups: two calls that share a parameter are in one group.

    Sharing is transitive: if calls 1 and 2 share a weight, and 2 and 3 a bias, all
    three are one group.
    """
    calls = list(calls)
    keys = [target.key for call in calls for target in call.targets.values()]
    if len(set(keys)) == len(keys):  # the usual case: nothing is shared
        return [_group([call]) for call in calls]
    group_of: dict[LayerCall, list[LayerCall]] = {}
    users: dict[ParameterKey, list[tuple[GradientTarget, LayerCall]]] = {}
    for call in calls:
        group_of[call] = [call]
        for target in call.targets.values():
            earlier = users.setdefault(target.key, [])
            for other, user in earlier:
                if _overlap(target, other):
                    _join(group_of, user, call)
            earlier.append((target, call))
    groups = {id(group): group for group in group_of.values()}
    return [_group(group) for group in groups.values()]


def _join(
    group_of: dict[LayerCall, list[LayerCall]], first: LayerCall, second: LayerCall
) -> None:
    """Move the second call's group into the first's."""
    into, group = group_of[first], group_of[second]
    if into is not group:
        into += group
        group_of.update(dict.fromkeys(group, into))


def _overlap(a: GradientTarget, b: GradientTarget) -> bool:
    """Whether two targets have a row of their parameter in common."""
    if a.stop is None or b.stop is None:
        return True
    return max(a.start, b.start) < min(a.stop, b.stop)


def _group(calls: list[LayerCall]) -> LayerCallGroup:
    units = {target.unit for call in calls for target in call.targets.values()}
    if len(calls) == len(units) == 1:
        return SingleLayerCall(calls[0])
    return SharedLayerCalls(calls)


def summed_gradients(calls: Iterable[LayerCall]) -> dict[ParameterKey, Tensor]:
    """Return {parameter: gradients, [B, *shape]}, summed over its calls."""
    total: dict[ParameterKey, Tensor] = {}
    # Few rows are added to gradients that are there, as an embedding's to its head's.
    for call in sorted(calls, key=lambda call: call.rule.few_rows):
        if call.rule.few_rows and _has_all(total, call):
            before = {name: total[t.key] for name, t in call.targets.items()}
            for local, gradient in call.added_to(before).items():
                total[call.targets[local].key] = gradient
            continue
        for local, gradient in call.materialize().items():
            target = call.targets[local]
            if not target.is_whole:
                shape = len(gradient), *call.parameters[local].shape
                whole = gradient.new_zeros(shape)
                target.rows_of(whole.transpose(0, 1)).transpose(0, 1).copy_(gradient)
                gradient = whole
            earlier = total.get(target.key)
            total[target.key] = gradient if earlier is None else earlier + gradient
    return total


def _has_all(total: Mapping[ParameterKey, Tensor], call: LayerCall) -> bool:
    """Whether there are gradients of all that a call trains, each of all rows."""
    return all(t.is_whole and t.key in total for t in call.targets.values())


def _widened(calls: list[LayerCall]) -> list[LayerCall]:
    """Return the calls, in float64 where float32 would lengthen norms by over UNSEEN.

    The decision depends on shapes alone, never on a value: it must not depend on the
    data.  The excess of one call grows with its positions to the power 3/2; n calls add
    over n times as many, so their sum is multiplied by the root of n once more.
    """
    excess = sum([call.excess() for call in calls])
    if excess * math.sqrt(len(calls)) <= UNSEEN:
        return calls
    return [replace(call, wide=call.ghost) for call in calls]


def squared_norms_of(
    groups: Iterable[LayerCallGroup], scale: float
) -> dict[str, Tensor]:
    """Return {unit: squared norms, [B]} of gradients times ``scale``, of one pass.

    ||s g||^2 = s^2 ||g||^2: B numbers are scaled, not the backprops.
    """
    norms: list[tuple[str, Tensor]] = []
    together: dict[Hashable, list[tuple[str, OuterProductCall]]] = {}
    for group in groups:
        single = group.single_position()
        if single is not None:
            together.setdefault(single[1].kind, []).append(single)
        else:
            norms += group.squared_norms()
    if scale != 1.0 and norms:
        units, own = zip(*norms, strict=True)
        norms = list(zip(units, torch._foreach_mul(own, scale**2), strict=True))
    for singles in together.values():
        units, calls = zip(*singles, strict=True)
        found = backend_of(calls[0].backprops).outer_product_norms(calls, scale)
        norms += zip(units, found, strict=True)
    return added_by_unit(norms)


def add_weighted_of(
    groups: Iterable[LayerCallGroup],
    weights: Mapping[str, Tensor],
    sums: GradientSums,
    scale: float,
) -> None:
    """Add sum_i scale * weights[unit][i] * g_i of all groups to the sums."""
    singles: list[WeightedCall] = []
    others: list[LayerCallGroup] = []
    for group in groups:
        weighted = _weighted_call(group, weights, sums)
        if weighted is None:
            others.append(group)
        else:
            singles.append(weighted)
    if singles:
        backend_of(singles[0].weights).add_outer_products(singles, scale)
    if others:
        scaled = _scaled(weights, sums, scale)
        for group in others:
            group.add_weighted(scaled, sums)


def _scaled(
    weights: Mapping[str, Tensor], sums: GradientSums, scale: float
) -> dict[str, Tensor]:
    """Return weights times scale, in the dtype of each unit's sums.

    The same vector for several units stays one object, which the calls recognise.
    """
    factors: dict[tuple[int, torch.dtype], Tensor] = {}
    scaled: dict[str, Tensor] = {}
    for unit, own in weights.items():
        dtype = next((total.dtype for total in sums[unit].values()), own.dtype)
        key = id(own), dtype
        if key not in factors:
            factors[key] = (own * scale).to(dtype)
        scaled[unit] = factors[key]
    return scaled


def _weighted_call(
    group: LayerCallGroup, weights: Mapping[str, Tensor], sums: GradientSums
) -> WeightedCall | None:
    """Return a group's one call, if it can be summed with others."""
    single = group.single_position()
    if single is None or not isinstance(group, SingleLayerCall):
        return None
    unit, call = single
    return WeightedCall(call, weights[unit], *group.totals_of("", sums))


def added_by_unit(norms: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Return {unit: sum of its squared norms, [B]}, added in float64."""
    parts: dict[str, list[Tensor]] = {}
    for unit, values in norms:
        parts.setdefault(unit, []).append(values)
    return {unit: backend_of(own[0]).sum_of(own) for unit, own in parts.items()}
