"""Layer calls in parts, each measured and summed as one.

A parameter with several calls (tied weights, a layer called twice) has as its gradient
the sum over its calls, and the norm of a sum is not the sum of the norms:

    ||a + b||^2 = ||a||^2 + ||b||^2 + 2 <a, b>

For a = (1, 0) and b = (-1, 1) that is 1 + 2 - 2 = 1, not 3.  Calls of one parameter are
therefore one part, :class:`SharedCalls`, which adds the cross terms <a, b> of each
pair.  A call that shares nothing, the usual case, is a :class:`SingleCall`, and the
calls of linear layers without positions are :class:`OuterProducts`.

Source: derived in ``layers.cross_terms``, from the ghost norm of Li et al. (2022),
arXiv:2110.05679, section 4.
"""

from __future__ import annotations

import math
from abc import abstractmethod
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
from dpsgd_explorer.dp.layers.round_off import UNSEEN


class CallGradients(PerSampleGradients):
    """The gradients of some layer calls of a pass.

    Args:
        calls: The calls, at least one.
        scale: Factor from the gradients of the user's loss to those of one sample; see
            ``GradientEngine.gradient_scale``.
    """

    leaves_out: ClassVar[bool] = True

    def __init__(self, calls: list[LayerCall], scale: float = 1.0) -> None:
        self._calls, self._scale = calls, scale

    def __len__(self) -> int:
        return len(self._calls[0].backprops)

    def norm_terms(self) -> list[NormTerm]:
        terms = self._unscaled_terms()
        if self._scale == 1.0 or not terms:
            return terms
        # ||s g||^2 = s^2 ||g||^2: B numbers are scaled, not the backprops.
        units, norms = zip(*terms, strict=True)
        scaled = torch._foreach_mul(norms, self._scale**2)
        return list(zip(units, scaled, strict=True))

    @abstractmethod
    def _unscaled_terms(self) -> list[NormTerm]:
        """Return ``norm_terms`` of the user's loss."""

    def materialize(self) -> dict[str, Tensor]:
        return {
            full_name(*key): gradient if self._scale == 1.0 else gradient * self._scale
            for key, gradient in self.whole_gradients().items()
        }

    def whole_gradients(self) -> dict[ParameterKey, Tensor]:
        """Return {parameter: gradients of the user's loss, [B, *shape]}."""
        return summed_gradients(self._calls)

    def take(self, index: Tensor | slice) -> Self:
        return type(self)([call.take(index) for call in self._calls], self._scale)

    def sample_bytes(self) -> int:
        """Return the bytes of one sample's instantiated gradients."""
        return sum(call.gradient_bytes() for call in self._calls)

    def keys(self) -> frozenset[ParameterKey]:
        """Return the parameters of the calls."""
        return frozenset(t.key for call in self._calls for t in call.targets.values())

    def alone(self) -> list[CallGradients]:
        """Return parts of which each has all gradients of its parameters."""
        return [self]

    def joins_layers(self) -> bool:
        """Return True if its gradients are kept, and joined with other layers'."""
        making = [call for call in self._calls if call.ghost is None]
        return bool(making) and all(call.joins_layers() for call in making)

    def targeted_gradients(self) -> list[tuple[GradientTarget, Tensor]]:
        """Return the gradients of the user's loss, and the rows that they belong to."""
        made = self.whole_gradients()
        return [(GradientTarget(*key), gradient) for key, gradient in made.items()]

    def _scaled(
        self, weights: Mapping[str, Tensor], sums: GradientSums
    ) -> dict[str, Tensor]:
        """Return the weights of the part's units, scaled, in the dtype of their sums.

        The same vector for several units stays one object, which the calls recognize.
        """
        factors: dict[tuple[int, torch.dtype], Tensor] = {}
        scaled: dict[str, Tensor] = {}
        for unit in {unit for unit, _ in self.keys()}:
            own = weights[unit]
            dtype = next((total.dtype for total in sums[unit].values()), own.dtype)
            key = id(own), dtype
            if key not in factors:
                factors[key] = (own * self._scale).to(dtype)
            scaled[unit] = factors[key]
        return scaled


class SingleCall(CallGradients):
    """The only call of its parameters, which belong to one unit."""

    def __init__(self, calls: list[LayerCall], scale: float = 1.0) -> None:
        (call,) = calls
        if call.inflation() > UNSEEN:
            calls = [replace(call, wide=True)]
        super().__init__(calls, scale)

    @property
    def call(self) -> LayerCall:
        """The call."""
        return self._calls[0]

    @property
    def unit(self) -> str:
        """Clipping unit of the call's parameters."""
        return next(iter(self.call.targets.values())).unit

    def targeted_gradients(self) -> list[tuple[GradientTarget, Tensor]]:
        made = self.call.materialize()
        return [(self.call.targets[name], gradient) for name, gradient in made.items()]

    def _unscaled_terms(self) -> list[NormTerm]:
        return [(self.unit, self.call.squared_norms())]

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        self.call.add_weighted_to_one(self._scaled(weights, sums), sums)


class OuterProducts(CallGradients):
    """Calls of linear layers without positions, with ghost norms, of one kind.

    Small layers cost more in calls from Python than in arithmetic, so one call of the
    backend measures all of them, and one adds them.

    Args:
        calls: The calls.
        scale: As of ``CallGradients``.
        products: Their inputs and backprops, if they are known.
    """

    def __init__(
        self,
        calls: list[LayerCall],
        scale: float = 1.0,
        products: list[OuterProductCall] | None = None,
    ) -> None:
        super().__init__(calls, scale)
        if products is None:
            found = [call.outer_product() for call in calls]
            products = [product for product in found if product is not None]
        self._products = products
        self._units = [next(iter(c.targets.values())).unit for c in calls]

    def _unscaled_terms(self) -> list[NormTerm]:
        return self._terms(1.0)

    def norm_terms(self) -> list[NormTerm]:
        return self._terms(self._scale)

    def _terms(self, scale: float) -> list[NormTerm]:
        backend = backend_of(self._products[0].backprops)
        norms = backend.outer_product_norms(self._products, scale)
        return list(zip(self._units, norms, strict=True))

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        every = zip(self._products, self._units, self._calls, strict=True)
        added = [
            WeightedCall(product, weights[unit], *call.totals_of("", sums))
            for product, unit, call in every
        ]
        backend_of(added[0].weights).add_outer_products(added, self._scale)

    def alone(self) -> list[CallGradients]:
        return [SingleCall([call], self._scale) for call in self._calls]


class SharedCalls(CallGradients):
    """Calls that share parameters, or one call with parameters of several units.

    Norms are computed without gradients only where every call is a sum of outer
    products; else the gradients of all calls are instantiated and added first.  The
    weighted sum then adds the same gradients that the norm was computed of.
    """

    def __init__(self, calls: list[LayerCall], scale: float = 1.0) -> None:
        super().__init__(_widened(calls), scale)
        self._instantiates = any(call.ghost is None for call in calls)
        self._gradients: dict[ParameterKey, Tensor] = {}

    def _unscaled_terms(self) -> list[NormTerm]:
        """Return them by cross terms, where every call is a sum of outer products."""
        if not self._instantiates:
            factors = [call.outer_products() for call in self._calls]
            products = [product for product in factors if product is not None]
            if len(products) == len(factors):
                return list(self._norms_by_cross_terms(products))
            self._instantiates = True
        gradients = summed_gradients(self._calls)
        # The bytes of a ghost call are not counted: alone it must not be stored.
        keeps = all(call.keeps for call in self._calls)
        if keeps and any(call.ghost is None for call in self._calls):
            self._gradients = gradients
        return [
            (unit, gradient_squared_norms({parameter: gradient}))
            for (unit, parameter), gradient in gradients.items()
        ]

    def _norms_by_cross_terms(
        self, factors: list[dict[str, OuterProduct]]
    ) -> Iterable[NormTerm]:
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
    """Return the calls in parts: two calls that share a parameter are in one part.

    Sharing is transitive: if calls 1 and 2 share a weight, and 2 and 3 a bias, all
    three are one part.

    Args:
        calls: The calls of a pass.
        scale: Factor from the gradients of the user's loss to those of one sample.
    """
    calls = list(calls)
    keys = [target.key for call in calls for target in call.targets.values()]
    if len(set(keys)) == len(keys):  # the usual case: nothing is shared
        return _parts([[call] for call in calls], scale)
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
    return _parts(groups.values(), scale)


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


def _parts(groups: Iterable[list[LayerCall]], scale: float) -> list[CallGradients]:
    """Return a part for each group, and one for all outer products of a kind."""
    parts: list[CallGradients] = []
    products: dict[Hashable, list[tuple[LayerCall, OuterProductCall]]] = {}
    for calls in groups:
        units = {target.unit for call in calls for target in call.targets.values()}
        if not len(calls) == len(units) == 1:
            parts.append(SharedCalls(calls, scale))
            continue
        product = calls[0].outer_product()
        if product is None:
            parts.append(SingleCall(calls, scale))
        else:
            products.setdefault(product.kind, []).append((calls[0], product))
    for pairs in products.values():
        singles, made = map(list, zip(*pairs, strict=True))
        parts.append(OuterProducts(singles, scale, made))
    return parts


def summed_gradients(calls: Iterable[LayerCall]) -> dict[ParameterKey, Tensor]:
    """Return {parameter: gradients, [B, *shape]}, summed over its calls."""
    total: dict[ParameterKey, Tensor] = {}
    # An embedding's few rows are added to the gradients of its head, which come first.
    for call in sorted(calls, key=LayerCall.has_ids):
        if call.has_ids() and _has_all(total, call):
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
    data.  The inflation of one call grows with its positions to the power 3/2; n calls
    add over n times as many, so their sum is multiplied by the root of n once more.
    """
    inflation = sum([call.inflation() for call in calls])
    if inflation * math.sqrt(len(calls)) <= UNSEEN:
        return calls
    return [replace(call, wide=call.ghost is not None) for call in calls]
