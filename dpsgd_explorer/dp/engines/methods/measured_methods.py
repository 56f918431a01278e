"""The norm methods of a run that were measured on this processor, or recorded.

Which of two methods is quicker depends on the processor: the gradients of a small
convolution by torch's grouped convolution took 1.7 times as long as by rows on one with
AVX2, and half as long on one with AVX-512.  ``norm_methods="measured"`` times the
methods between which the estimate is unsure, on made-up tensors of a call's shapes,
when these are first met.

A choice depends on shapes, settings and clocks, never on a value of the data or on the
size of a batch: what is timed has the expected batch size.  All methods are
exact up to rounding, and norm and sum are always of one method, so the guarantee does
not depend on the choice; the last bits do.  So a run's choices are recorded, and a run
that is given them takes the same ones.

Source: Bu, Mao and Xu (2022), arXiv:2205.10683, compare operations; timing candidates
per shape is the way of autotuners such as FFTW's (Frigo and Johnson 2005).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from dpsgd_explorer.dp.engines.methods.method_cache import MethodCache
from dpsgd_explorer.dp.kernels.processor import processor
from dpsgd_explorer.dp.layers.base import GradientRule, trains
from dpsgd_explorer.dp.layers.conv_gradients import METHODS as CONVOLUTION_METHODS
from dpsgd_explorer.dp.layers.round_off import UNSEEN
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import one_of

ESTIMATED, MEASURED = "estimated", "measured"
#: How the norm methods of a layer call may be chosen, unless they were recorded.
SOURCES = (ESTIMATED, MEASURED)
GHOST, INSTANTIATE = "ghost", "instantiate"
#: Methods that can be recorded.
METHODS = (GHOST, INSTANTIATE, *CONVOLUTION_METHODS)
#: What decides, in explanations.
ON_THIS_PROCESSOR, RECORDED = "measured on this processor", "recorded by an earlier run"
#: Estimated ratio of two methods' times beyond which none is timed.
CLEAR = 4.0
#: Least speed-up for which the estimate is given up.  Timed alone and in a step, a
#: method differs by a tenth; below this, noise would decide.
WORTHWHILE = 1.2
#: Calls whose choice is kept beside their exact shapes, batch strides included.
MOST_REMEMBERED = 4096

#: {key of a layer call: method}.
Recorded = Mapping[str, str]


class ShapedCall(NamedTuple):
    """A layer call, of whose tensors only shapes, dtypes and strides are read.

    Attributes:
        rule: The algebra of its gradients.
        layer: The module, or a part of one.
        activations: What the rule saved, samples first.
        backprops: Gradient of the output, [B, ...].
    """

    rule: GradientRule[Any, Any]
    layer: nn.Module
    activations: Any
    backprops: Tensor

    @property
    def inputs(self) -> tuple[nn.Module, Any, Tensor]:
        """Arguments of the rule's methods."""
        return self[1:]

    def shapes(self) -> tuple[Any, ...]:
        """Return what a choice may depend on, but the batch size; it can be hashed."""
        every = (*tensors_of(self.activations), self.backprops)
        return tuple([(x.shape[1:], x.stride(), x.dtype) for x in every])


class NormMethod(NamedTuple):
    """How the norm of a layer call is computed.

    Attributes:
        is_ghost: Without the gradients; else from them.
        gradients: The algorithm of the gradients; "" for the rule's own choice.
        origin: What decided, in words; "" for the estimate.
        microseconds: {method: time per sample} where it was measured, the estimate's
            first.
    """

    is_ghost: bool
    gradients: str = ""
    origin: str = ""
    microseconds: Mapping[str, float] | None = None


#: See ``method_times``.
TimeMethods = Callable[[ShapedCall, Sequence[str], bool, int], dict[str, float]]


def prefers_ghost(call: ShapedCall) -> bool:
    """Whether the ghost norm is the estimate for a call, and precise enough."""
    rule, *inputs = call
    if not rule.prefers_ghost(*inputs):
        return False
    # Beyond UNSEEN the ghost norm would be computed in float64, whose products cost
    # about twice, which the rule did not count: instantiate, if there is a choice.
    return rule.excess(*inputs) <= UNSEEN or rule.multiply_adds(*inputs) is None


class NormMethods:
    """The methods that a run takes where the estimate is unsure.

    Args:
        source: "estimated" or "measured"; or {key: method} of an earlier run, and the
            estimate for other keys.
        cache: Times of this and earlier processes; the user's if not given.
        batch_size: Expected number of samples of a call, a public constant; what is
            timed has the nearest power of two.

    Raises:
        ConfigError: the source is none of these.

    Attributes:
        chosen: {key: method} of the calls met so far that had a choice; empty where all
            is estimated.
    """

    def __init__(
        self,
        source: str | Recorded = ESTIMATED,
        cache: MethodCache | None = None,
        *,
        batch_size: int = 1,
    ) -> None:
        self._recorded = _checked(source)
        self._measures = source == MEASURED
        self._cache = cache
        self._batch_size = 2 ** round(math.log2(max(1, batch_size)))
        self._known: dict[Any, NormMethod] = {}
        self.chosen: dict[str, str] = {}

    def settle(self) -> None:
        """Measure nothing from now on; keys not met so far are estimated."""
        self._measures = False
        self._recorded = dict(self.chosen)

    def take(self, recorded: Recorded) -> None:
        """Take these methods for their keys, whatever was measured.

        Raises:
            ConfigError: a method is unknown.
        """
        self._recorded = {**self._recorded, **_checked(recorded)}
        self.chosen = {**self.chosen, **self._recorded}
        self._known.clear()

    def choose(
        self,
        call: ShapedCall,
        *,
        has_ghost: bool,
        keeps: bool,
        time_methods: TimeMethods,
    ) -> NormMethod:
        """Return the method of a call.

        Args:
            call: The call.
            has_ghost: Whether the ghost norm may be taken.
            keeps: Whether instantiated gradients are stored for the sum.
            time_methods: Times the candidates.
        """
        if not (self._measures or self._recorded) or not len(call.backprops):
            return NormMethod(has_ghost and prefers_ghost(call))
        settings = call.rule.settings_of(call.layer), *_trained(call)
        exact = call.rule, settings, call.shapes(), has_ghost, keeps
        if exact not in self._known:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            ghost = has_ghost and prefers_ghost(call)
            methods = candidates(call, ghost, has_ghost=has_ghost)
            found = None
            if len(methods) > 1:
                key = key_of(call, has_ghost=has_ghost, keeps=keeps)
                found = self._decide(key, call, methods, keeps, time_methods)
            self._known[exact] = found or NormMethod(ghost)
        return self._known[exact]

    def _decide(
        self,
        key: str,
        call: ShapedCall,
        methods: Sequence[str],
        keeps: bool,
        time_methods: TimeMethods,
    ) -> NormMethod | None:
        """Return the method of a key; None for the estimate."""
        recorded = self._recorded.get(key, "")
        if recorded in methods:
            self.chosen[key] = recorded
            return _method(recorded, RECORDED)
        if not self._measures:
            return None
        cache = MethodCache.of_user() if self._cache is None else self._cache
        place = processor(call.backprops.device)
        timed_key = f"{key}; batches of {self._batch_size}"
        seconds = cache.times(place, timed_key)
        if not set(methods) <= set(seconds):
            seconds = time_methods(call, methods, keeps, self._batch_size)
            cache.add(place, timed_key, seconds)
        self.chosen[key] = measured = quickest(methods, seconds)
        shown = {name: 1e6 * seconds[name] for name in methods}
        return _method(measured, ON_THIS_PROCESSOR, shown)


def candidates(
    call: ShapedCall, estimates_ghost: bool, *, has_ghost: bool
) -> list[str]:
    """Return the methods between which the estimate is unsure, its own first.

    A ghost norm whose error bound would be seen is never one of several.
    """
    rule = call.rule
    gradients = list(rule.gradient_methods(*call.inputs)) or [INSTANTIATE]
    if not has_ghost:
        return gradients
    ratio = rule.cost_ratio(*call.inputs)
    if estimates_ghost:
        is_sure = rule.multiply_adds(*call.inputs) is None or ratio * CLEAR <= 1
        return [GHOST] if is_sure else [GHOST, *gradients]
    if ratio >= CLEAR or rule.excess(*call.inputs) > UNSEEN:
        return gradients
    return [gradients[0], GHOST, *gradients[1:]]


def quickest(methods: Sequence[str], seconds: Mapping[str, float]) -> str:
    """Return the method of the shortest time; the first, unless it is WORTHWHILE."""
    best = min(methods, key=lambda name: seconds[name])
    return best if seconds[best] * WORTHWHILE < seconds[methods[0]] else methods[0]


def key_of(call: ShapedCall, *, has_ghost: bool, keeps: bool) -> str:
    """Return the text under which the methods of such calls are recorded.

    For example "Linear; weight bias; 64x128 float32; 64x384 float32": rule and its
    settings, trained parameters, shapes per sample of activations and backprops.
    """
    rule, layer = call.rule, call.layer
    kind = f"{type(rule).__name__.removesuffix('Rule')} {rule.settings_of(layer)}"
    sides = [_side(x) for x in (*tensors_of(call.activations), call.backprops)]
    restrictions = []
    if not has_ghost:
        restrictions.append("gradients only")
    if not keeps:
        restrictions.append("made again")
    parts = kind.strip(), " ".join(_trained(call)), *sides, *restrictions
    return "; ".join(parts)


def memory_order(values: Tensor) -> list[int]:
    """Return the dimensions after the first, from the widest stride to the smallest.

    Those of one entry come last, in order: their strides mean nothing.
    """
    strides = values.stride()

    def place(dim: int) -> tuple[bool, int, int]:
        return values.shape[dim] == 1, -strides[dim], dim

    return sorted(range(1, values.dim()), key=place)


def _side(values: Tensor) -> str:
    """Return shape per sample, dtype, and the order in memory if it is another."""
    shape = "x".join(map(str, values.shape[1:])) or "1"
    order = [dim for dim in memory_order(values) if values.shape[dim] > 1]
    text = f"{shape} {str(values.dtype).removeprefix('torch.')}"
    return text if order == sorted(order) else f"{text} order {order}"


def _trained(call: ShapedCall) -> tuple[str, ...]:
    names = call.rule.parameter_names
    return tuple([name for name in names if trains(call.layer, name)])


def _method(
    name: str, origin: str, microseconds: Mapping[str, float] | None = None
) -> NormMethod:
    gradients = name if name in CONVOLUTION_METHODS else ""
    return NormMethod(name == GHOST, gradients, origin, microseconds)


def _checked(source: str | Recorded) -> dict[str, str]:
    """Return what was recorded; raise ConfigError if the source is not valid."""
    if isinstance(source, str):
        one_of("norm_methods", source, SOURCES)
        return {}
    if not isinstance(source, Mapping):
        raise ConfigError(
            "norm_methods",
            "norm_methods must be 'estimated', 'measured' or the norm_methods of an "
            f"earlier engine, got {source!r}.",
        )
    for key, method in source.items():
        if not isinstance(key, str) or method not in METHODS:
            raise ConfigError(
                "norm_methods",
                f"norm_methods must map layer calls to {', '.join(METHODS)}, got "
                f"{method!r} for {key!r}. Pass an earlier engine's norm_methods.",
            )
    return dict(source)
