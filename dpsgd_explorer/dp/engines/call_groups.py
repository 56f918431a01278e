"""Parts of a pass: layer calls whose gradients are measured and added together.

A parameter with several calls (tied weights, a layer called twice) has as its gradient
the sum over its calls, and the norm of a sum is not the sum of the norms:

    ||a + b||^2 = ||a||^2 + ||b||^2 + 2 <a, b>

For a = (1, 0) and b = (-1, 1) that is 1 + 2 - 2 = 1, not 3.  Calls of one parameter are
therefore one part, :class:`SharedCalls`, which adds the cross terms <a, b> of all
pairs.  A call that shares no parameter, the usual case, is a :class:`SingleCall`.  The
calls of linear layers without positions are :class:`OuterProducts`.

Source: derived in ``layers.cross_terms``, from the ghost norm of Li et al. (2022),
arXiv:2110.05679, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import OuterProductCall, WeightedCall
from dpsgd_explorer.dp.engines.base import (
    GradientSums,
    NormTerm,
    PerSampleGradients,
    full_name,
)
from dpsgd_explorer.dp.engines.layer_calls import (
    GradientTarget,
    LayerCall,
    ParameterKey,
)
from dpsgd_explorer.dp.layers.base import gradient_squared_norms
from dpsgd_explorer.dp.layers.cross_terms import OuterProduct, squared_norms_of_sum
from dpsgd_explorer.dp.layers.round_off import MAX_INFLATION


class CallGradients(PerSampleGradients):
    """The gradients of some layer calls of a pass.

    Args:
        calls: The calls, at least one.
        scale: Factor from gradients of the user's loss to per-sample gradients; see
            ``GradientEngine.gradient_scale``.
    """

    leaves_out: ClassVar[bool] = True

    def __init__(self, calls: list[LayerCall], scale: float = 1.0) -> None:
        self._calls, self._scale = calls, scale

    def __len__(self) -> int:
        return len(self._calls[0].backprops)

    def _scaled_terms(self, terms: list[NormTerm]) -> list[NormTerm]:
        """Returns ``norm_terms`` from squared norms of the user's loss."""
        if self._scale == 1.0 or not terms:
            return terms
        # ||s g||^2 = s^2 ||g||^2: B numbers are scaled, not the backprops.
        units, norms = zip(*terms, strict=True)
        scaled = torch._foreach_mul(norms, self._scale**2)
        return list(zip(units, scaled, strict=True))

    def materialize(self) -> dict[str, Tensor]:
        return {
            full_name(*key): gradient if self._scale == 1.0 else gradient * self._scale
            for key, gradient in self.whole_gradients().items()
        }

    def whole_gradients(self) -> dict[ParameterKey, Tensor]:
        """Returns {parameter: gradients of the user's loss, [B, *shape]}."""
        return summed_gradients(self._calls)

    def take(self, index: Tensor | slice) -> Self:
        return type(self)([call.take(index) for call in self._calls], self._scale)

    def sample_bytes(self) -> int:
        """Returns the bytes of one sample's instantiated gradients."""
        return sum([call.gradient_bytes() for call in self._calls])

    def keys(self) -> frozenset[ParameterKey]:
        """Returns the parameters of the calls."""
        return frozenset(key for call in self._calls for key in call.trained.keys)

    def alone(self) -> list[CallGradients]:
        """Returns parts; a part has all gradients of its parameters."""
        return [self]

    def joins_layers(self) -> bool:
        """Returns True if its gradients are stored and joined with other layers'."""
        instantiated = [call for call in self._calls if call.ghost is None]
        return bool(instantiated) and all(map(LayerCall.joins_layers, instantiated))

    def targeted_gradients(self) -> list[tuple[GradientTarget, Tensor]]:
        """Returns the gradients of the user's loss with their targets."""
        gradients = self.whole_gradients()
        return [(GradientTarget(*key), values) for key, values in gradients.items()]

    def _scaled(
        self, weights: Mapping[str, Tensor], sums: GradientSums
    ) -> dict[str, Tensor]:
        """Returns the scaled weights of the part's units, in the dtype of their sums.

        If several units have one weight vector, they also have one scaled vector; calls
        compare vectors by identity.
        """
        factors: dict[tuple[int, torch.dtype], Tensor] = {}
        scaled: dict[str, Tensor] = {}
        for unit in {unit for unit, _ in self.keys()}:
            vector = weights[unit]
            dtype = next((total.dtype for total in sums[unit].values()), vector.dtype)
            key = id(vector), dtype
            if key not in factors:
                factors[key] = (vector * self._scale).to(dtype)
            scaled[unit] = factors[key]
        return scaled


class SingleCall(CallGradients):
    """The only call of its parameters, which belong to one unit."""

    def __init__(self, calls: list[LayerCall], scale: float = 1.0) -> None:
        (call,) = calls
        if call.inflation() > MAX_INFLATION:
            calls = [replace(call, wide=True)]
        super().__init__(calls, scale)

    @property
    def call(self) -> LayerCall:
        """The call."""
        return self._calls[0]

    def targeted_gradients(self) -> list[tuple[GradientTarget, Tensor]]:
        targets, gradients = self.call.trained.targets, self.call.materialize()
        return [(targets[name], gradient) for name, gradient in gradients.items()]

    def norm_terms(self) -> list[NormTerm]:
        (unit,) = self.call.trained.units
        return self._scaled_terms([(unit, self.call.squared_norms())])

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        self.call.add_weighted(self._scaled(weights, sums), sums)


class OuterProducts(CallGradients):
    """Calls of linear layers without positions, with ghost norms and equal ``kind``.

    Small layers cost more in calls from Python than in arithmetic, so one call of the
    backend measures all of them, and one call adds them.

    Args:
        calls: The calls.
        scale: See ``CallGradients``.
        products: Inputs and backprops of the calls.
    """

    def __init__(
        self, calls: list[LayerCall], scale: float, products: list[OuterProductCall]
    ) -> None:
        super().__init__(calls, scale)
        self._products = products
        self._units = [call.trained.units[0] for call in calls]

    def norm_terms(self) -> list[NormTerm]:
        backend = backend_of(self._products[0].backprops)
        norms = backend.outer_product_norms(self._products, self._scale)
        return list(zip(self._units, norms, strict=True))

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        weighted = []
        for product, unit, call in zip(
            self._products, self._units, self._calls, strict=True
        ):
            targets = call.trained.targets
            totals = targets["weight"].of(sums), targets["bias"].of(sums)
            weighted.append(WeightedCall(product, weights[unit], *totals))
        backend_of(weighted[0].weights).add_outer_products(weighted, self._scale)

    def take(self, index: Tensor | slice) -> Self:
        calls = [call.take(index) for call in self._calls]
        products = [OuterProductCall(x[index], g[index]) for x, g in self._products]
        return type(self)(calls, self._scale, products)

    def alone(self) -> list[CallGradients]:
        return [SingleCall([call], self._scale) for call in self._calls]


class SharedCalls(CallGradients):
    """Calls that share parameters, or one call with parameters of several units.

    Norms are computed without gradients only if every call is a sum of outer products.
    Otherwise the gradients of all calls are instantiated and added first, and the
    weighted sum adds the gradients that the norm was computed from.
    """

    def __init__(self, calls: list[LayerCall], scale: float = 1.0) -> None:
        super().__init__(_widened(calls), scale)
        self._instantiates = any(call.ghost is None for call in calls)
        self._gradients: dict[ParameterKey, Tensor] = {}

    def norm_terms(self) -> list[NormTerm]:
        if not self._instantiates:
            factors = [call.outer_products() for call in self._calls]
            products = [product for product in factors if product is not None]
            if len(products) == len(factors):
                return self._scaled_terms(list(self._norms_by_cross_terms(products)))
            self._instantiates = True
        gradients = summed_gradients(self._calls)
        # ``sample_bytes`` counts no gradients of a ghost call, so gradients of ghost
        # calls alone must not be stored.
        keeps = all(call.keeps for call in self._calls)
        if keeps and any(call.ghost is None for call in self._calls):
            self._gradients = gradients
        terms = [
            (unit, gradient_squared_norms({parameter: gradient}))
            for (unit, parameter), gradient in gradients.items()
        ]
        return self._scaled_terms(terms)

    def _norms_by_cross_terms(
        self, factors: list[dict[str, OuterProduct]]
    ) -> Iterable[NormTerm]:
        gathered: dict[ParameterKey, list[OuterProduct]] = {}
        for call, products in zip(self._calls, factors, strict=True):
            for local, product in products.items():
                target = call.trained.targets[local]
                # Calls may use different rows of one weight (the projections of
                # attention); their cross term covers the common rows.
                moved = replace(product, start=target.start)
                gathered.setdefault(target.key, []).append(moved)
        for (unit, _), of_parameter in gathered.items():
            norms = squared_norms_of_sum(of_parameter)
            yield unit, norms.to(self._calls[0].dtype)

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        weights = self._scaled(weights, sums)
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
        taken = super().take(index)
        taken._instantiates = self._instantiates
        taken._gradients = {name: g[index] for name, g in self._gradients.items()}
        return taken


def grouped(calls: Iterable[LayerCall], scale: float = 1.0) -> list[CallGradients]:
    """Returns the parts of a pass: calls that share a parameter are in one part.

    Sharing is transitive: if calls 1 and 2 share a weight, and 2 and 3 a bias, all
    three are one part.

    Args:
        calls: The calls of a pass.
        scale: Factor from gradients of the user's loss to per-sample gradients.
    """
    calls = list(calls)
    keys = [key for call in calls for key in call.trained.keys]
    if len(set(keys)) == len(keys):  # the usual case: nothing is shared
        return _parts([[call] for call in calls], scale)
    group_of: dict[LayerCall, list[LayerCall]] = {}
    users: dict[ParameterKey, list[tuple[GradientTarget, LayerCall]]] = {}
    for call in calls:
        group_of[call] = [call]
        for target in call.trained.targets.values():
            earlier = users.setdefault(target.key, [])
            for other, user in earlier:
                if _overlap(target, other):
                    _join(group_of, user, call)
            earlier.append((target, call))
    groups = {id(group): group for group in group_of.values()}
    return _parts(groups.values(), scale)


def _join(
    group_of: dict[LayerCall, list[LayerCall]], first: LayerCall, second: LayerCall
) -> None:
    """Moves the group of the second call into the group of the first call."""
    into, group = group_of[first], group_of[second]
    if into is not group:
        into += group
        group_of.update(dict.fromkeys(group, into))


def _overlap(a: GradientTarget, b: GradientTarget) -> bool:
    """Returns True if two targets share a row of their parameter."""
    if a.stop is None or b.stop is None:
        return True
    return max(a.start, b.start) < min(a.stop, b.stop)


def _parts(groups: Iterable[list[LayerCall]], scale: float) -> list[CallGradients]:
    """Returns a part for each group, and one part for each kind of outer products."""
    parts: list[CallGradients] = []
    products: dict[Hashable, list[tuple[LayerCall, OuterProductCall]]] = {}
    for calls in groups:
        if len(calls) > 1 or len(calls[0].trained.units) != 1:
            parts.append(SharedCalls(calls, scale))
            continue
        product = calls[0].outer_product()
        if product is None:
            parts.append(SingleCall(calls, scale))
        else:
            products.setdefault(product.kind, []).append((calls[0], product))
    for pairs in products.values():
        singles, calls_of_kind = map(list, zip(*pairs, strict=True))
        parts.append(OuterProducts(singles, scale, calls_of_kind))
    return parts


def summed_gradients(calls: Iterable[LayerCall]) -> dict[ParameterKey, Tensor]:
    """Returns {parameter: gradients, [B, *shape]}, summed over its calls."""
    total: dict[ParameterKey, Tensor] = {}
    # The few rows of an embedding are added to the gradients of the tied output layer,
    # which come first.
    for call in sorted(calls, key=LayerCall.has_ids):
        targets = call.trained.targets
        if call.has_ids() and _has_all(total, call):
            before = {name: total[target.key] for name, target in targets.items()}
            for local, gradient in call.added_to(before).items():
                total[targets[local].key] = gradient
            continue
        for local, gradient in call.materialize().items():
            target = targets[local]
            if not target.is_whole:
                shape = len(gradient), *call.trained.parameters[local].shape
                whole = gradient.new_zeros(shape)
                whole[:, target.start : target.stop] = gradient
                gradient = whole
            earlier = total.get(target.key)
            total[target.key] = gradient if earlier is None else earlier + gradient
    return total


def _has_all(total: Mapping[ParameterKey, Tensor], call: LayerCall) -> bool:
    """Returns True if ``total`` has gradients of all parameters of a call."""
    return all(t.is_whole and t.key in total for t in call.trained.targets.values())


def _widened(calls: list[LayerCall]) -> list[LayerCall]:
    """Returns the calls, in float64 if float32 would lengthen norms too much.

    The limit is MAX_INFLATION.  The decision depends on shapes alone, since it must not
    depend on the data.  The inflation of a call grows with its positions to the power
    3/2.  The sum of n calls has n times the positions, so the sum of their inflations
    is multiplied by the root of n.
    """
    inflation = sum([call.inflation() for call in calls])
    if inflation * math.sqrt(len(calls)) <= MAX_INFLATION:
        return calls
    return [replace(call, wide=call.ghost is not None) for call in calls]
