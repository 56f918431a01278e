"""Chooses per layer how gradient norms are computed; the update is the same either way.

A ghost norm costs T^2 (d + p) multiply-adds per sample of a linear layer, an
instantiated gradient T d p (Bu, Mao and Xu 2022).  With T = 1, d = 1000 and p = 100
that is 1,100 against 100,000; with T = 1024 positions of a small convolution, d = 27
and p = 32, it is 62 million against 0.9 million.  So no method is best for all layers,
and the "Mix" modes choose for the shapes of each call.

By itself the choice is an estimate: constants of ``layers.matrix_rule``, the same on
every processor; of a convolution's gradients, the compiled method where there is one.
``measured_methods`` replaces it by what was timed or recorded.

Sources: Bu, Mao and Xu (2022), arXiv:2205.10683 (mixed ghost clipping); Bu et al.
(2022), arXiv:2210.00038 (MixGhostClip and MixOpt on book-keeping).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpsgd_explorer.dp.engines.methods.measured_methods import (
    NormMethod,
    NormMethods,
    ShapedCall,
    TimeMethods,
)
from dpsgd_explorer.dp.layers.base import GradientRule, MultiplyAdds
from dpsgd_explorer.dp.modules.pytree import map_tensors, tensors_of
from dpsgd_explorer.errors import ConfigError

#: {mode: what it does}.  The last two force a method.  The first two let the rule
#: choose for the shapes of each pass, and differ in whether gradients instantiated for
#: the norm are stored for the sum ("MixOpt") or computed again ("MixGhostClip").
CLIPPING_MODES: dict[str, str] = {
    "MixOpt": "the cheaper method at each shape; gradients are stored for the sum",
    "MixGhostClip": (
        "the cheaper method at each shape; gradients are computed again for the sum"
    ),
    "ghost": "norms without per-sample gradients",
    "instantiate": "norms of per-sample gradients, which are stored for the sum",
}
DEFAULT_MODE = "MixOpt"
FORCED = ("ghost", "instantiate")

#: One mode for all layers, or {layer's name or the start of it: mode}.
ClippingMode = str | Mapping[str, str]


@dataclass(frozen=True)
class NormChoice:
    """The norm method of one layer call in the last pass, and the reason.

    Attributes:
        layer: Name of the layer.
        kind: Type of the layer, or name of the part of it.
        input_shapes: Shapes of the saved activations, samples first.
        output_shape: Shape of the output, samples first.
        norm_method: "ghost" or "instantiate".
        multiply_adds: Cost of either method per sample, where the rule counts it.
        reason: The reason in words.
        gradient_method: The algorithm of the instantiated gradients that was measured
            or recorded; "" for the rule's own choice.
        microseconds: {method: time per sample} of norm and sum, where it was measured;
            the estimate's method first.
    """

    layer: str
    kind: str
    input_shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    norm_method: str
    multiply_adds: MultiplyAdds | None
    reason: str
    gradient_method: str = ""
    microseconds: Mapping[str, float] | None = None


class TensorSpec:
    """Shape and dtype of a tensor, without its entries, which would hold memory."""

    __slots__ = ("dtype", "shape")

    def __init__(self, values: Tensor) -> None:
        self.shape, self.dtype = values.shape, values.dtype

    def empty(self) -> Tensor:
        """Return a tensor of this shape and dtype without storage (device "meta")."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta")


#: Specs of a call's activations, in a tree as they are, and of its backprops.
CallSpecs = tuple[Any, TensorSpec]


def specs_of(activations: Any, backprops: Tensor) -> CallSpecs:
    """Return the specs of a call's tensors."""
    return map_tensors(TensorSpec, activations), TensorSpec(backprops)


class NormRequest(NamedTuple):
    """One choice of a norm method, to be explained later.

    Attributes:
        layer_name: Name of the layer.
        rule: The algebra of its gradients.
        layer: The module, or a part of one.
        activations: Specs of the saved activations.
        backprops: Spec of the output gradient.
        method: What was chosen.
    """

    layer_name: str
    rule: GradientRule[Any, Any]
    layer: nn.Module
    activations: Any
    backprops: TensorSpec
    method: NormMethod

    @classmethod
    def of(
        cls,
        name: str,
        call: ShapedCall,
        method: NormMethod,
        specs: CallSpecs | None = None,
    ) -> Self:
        """Return the request of a layer call; ``specs`` if it holds other tensors."""
        specs = specs or specs_of(call.activations, call.backprops)
        return cls(name, call.rule, call.layer, *specs, method)


class NormMethodSelector:
    """Chooses the norm method of each layer call, anew for the shapes of every pass.

    Args:
        mode: A key of CLIPPING_MODES, or {layer's name: such a key}.
        methods: What was measured or recorded, and what is to be measured.
        time_methods: Times the candidates of a call; see ``method_times``.
    """

    def __init__(
        self, mode: ClippingMode, methods: NormMethods, time_methods: TimeMethods
    ) -> None:
        self._methods, self._time_methods = methods, time_methods
        self._modes = {"": mode} if isinstance(mode, str) else dict(mode)
        self._mode_of: dict[str, str] = {}

    def mode_of(self, name: str) -> str:
        """Return the mode of a layer: that of the longest given name that contains it.

        With {"": "ghost", "body": "MixOpt"} the layer "body.0" has "MixOpt".
        """
        if name not in self._mode_of:
            above = [n for n in self._modes if is_within(name, n)]
            mode = self._modes[max(above, key=len)] if above else DEFAULT_MODE
            self._mode_of[name] = mode
        return self._mode_of[name]

    def keeps_gradients(self, name: str) -> bool:
        """Whether gradients instantiated for the norm are stored for the sum."""
        return self.mode_of(name) != "MixGhostClip"

    def choose(self, name: str, call: ShapedCall) -> NormMethod:
        """Return the norm method of a call of the layer of this name."""
        mode = self.mode_of(name)
        if mode == "ghost":
            return NormMethod(is_ghost=True)
        return self._methods.choose(
            call,
            has_ghost=mode != "instantiate",
            keeps=mode != "MixGhostClip",
            time_methods=self._time_methods,
        )

    def explain(self, request: NormRequest) -> NormChoice:
        """Return what was chosen for a request, and why."""
        name, rule, layer, specs, spec, method = request
        activations, backprops = tree_map(TensorSpec.empty, specs), spec.empty()
        mode = self.mode_of(name)
        cost = rule.multiply_adds(layer, activations, backprops)
        return NormChoice(
            layer=name,
            kind=getattr(layer, "kind", type(layer).__name__),
            input_shapes=tuple(tuple(x.shape) for x in tensors_of(activations)),
            output_shape=tuple(backprops.shape),
            norm_method="ghost" if method.is_ghost else "instantiate",
            multiply_adds=cost,
            reason=self._reason(mode, request, cost),
            gradient_method=method.gradients,
            microseconds=method.microseconds,
        )

    def _reason(
        self, mode: str, request: NormRequest, cost: MultiplyAdds | None
    ) -> str:
        _, rule, layer, specs, spec, method = request
        if method.origin:
            return method.origin
        if mode in FORCED:
            return f"clipping_mode {mode!r}"
        activations, backprops = tree_map(TensorSpec.empty, specs), spec.empty()
        if not method.is_ghost and rule.prefers_ghost(layer, activations, backprops):
            return "float32 is too imprecise for norms without gradients"
        return _reason(cost, method.is_ghost)


def is_within(name: str, above: str) -> bool:
    """Whether a module's name is ``above`` or inside it; "" contains every name."""
    return not above or name == above or name.startswith(f"{above}.")


def check_layer_names(mode: ClippingMode, module: nn.Module) -> None:
    """Raise ConfigError if a mode is given for a layer that does not exist."""
    names = {name for name, _ in module.named_modules()}
    for name in {} if isinstance(mode, str) else mode:
        if name not in names:
            raise ConfigError(
                "clipping_mode",
                f"clipping_mode must name modules of the model, got {name!r}. The "
                f"modules are {', '.join(sorted(n for n in names if n))}.",
            )


def _reason(cost: MultiplyAdds | None, ghost: bool) -> str:
    if cost is None:
        return "the only cheap method for this kind of layer"
    if cost.ghost == cost.instantiate:
        return "both methods need the same number of multiply-adds"
    if ghost == (cost.ghost < cost.instantiate):
        return "fewer multiply-adds"
    return "faster at this shape, although not fewer multiply-adds"
