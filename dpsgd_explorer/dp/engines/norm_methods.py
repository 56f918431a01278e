"""How the norm of a layer's gradients is made; the update is the same either way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpsgd_explorer.dp.layers.base import GradientRule, MultiplyAdds
from dpsgd_explorer.dp.layers.round_off import UNSEEN
from dpsgd_explorer.dp.modules.pytree import map_tensors, tensors_of
from dpsgd_explorer.errors import ConfigError

#: {mode: what it does}.  The first two force a way; the others let the rule choose
#: for the shapes of each pass, and differ in whether gradients that were made for the
#: norm are kept for the sum ("MixOpt") or made a second time ("MixGhostClip").
CLIPPING_MODES: dict[str, str] = {
    "MixOpt": "the cheaper way at each shape; gradients are kept for the sum",
    "MixGhostClip": "the cheaper way at each shape; gradients are made again",
    "ghost": "norms without gradients",
    "instantiate": "norms of gradients, which are kept for the sum",
}
DEFAULT_MODE = "MixOpt"
FORCED = ("ghost", "instantiate")

ClippingMode = str | Mapping[str, str]
"""One mode for all layers, or {layer's name or the start of it: mode}."""


@dataclass(frozen=True)
class NormChoice:
    """What was chosen for one use of a layer at the last pass, and why.

    Attributes:
        layer: Its name.
        kind: Its type, or the part of it.
        input_shapes: Of what was kept of its call, samples first.
        output_shape: Of its output, samples first.
        norm_method: "ghost" or "instantiate".
        multiply_adds: What either way costs a sample, where the rule counts it.
        reason: Why, in words.
    """

    layer: str
    kind: str
    input_shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    norm_method: str
    multiply_adds: MultiplyAdds | None
    reason: str


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is remembered of a tensor, without its numbers, which would take memory."""

    shape: torch.Size
    dtype: torch.dtype

    @classmethod
    def of(cls, values: Tensor) -> Self:
        """Return the outline of a tensor."""
        return cls(values.shape, values.dtype)

    def drawn(self) -> Tensor:
        """Return a tensor that has this outline and nothing in it."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta")


class NormRequest(NamedTuple):
    """For what a way was chosen: of the tensors nothing but their outlines."""

    layer_name: str
    rule: GradientRule[Any, Any]
    layer: nn.Module
    activations: Any
    backprops: TensorSpec

    @classmethod
    def outline(
        cls,
        name: str,
        rule: GradientRule[Any, Any],
        layer: nn.Module,
        activations: Any,
        backprops: Tensor,
    ) -> Self:
        """Return what is asked at a use of a layer, in outlines."""
        shapes = map_tensors(TensorSpec.of, activations)
        return cls(name, rule, layer, shapes, TensorSpec.of(backprops))


class NormMethodSelector:
    """Chooses the way of each use of a layer, anew for the shapes of every pass."""

    def __init__(self, mode: ClippingMode) -> None:
        self._modes = {"": mode} if isinstance(mode, str) else dict(mode)
        self._found: dict[str, str] = {}

    def mode_of(self, name: str) -> str:
        """Return the mode of a layer: that of the longest name it lies under."""
        if name not in self._found:
            above = [n for n in self._modes if lies_under(name, n)]
            mode = self._modes[max(above, key=len)] if above else DEFAULT_MODE
            self._found[name] = mode
        return self._found[name]

    def keeps_gradients(self, name: str) -> bool:
        """Whether gradients made for the norm stay for the sum."""
        return self.mode_of(name) != "MixGhostClip"

    def chooses_ghost(
        self,
        name: str,
        rule: GradientRule[Any, Any],
        layer: nn.Module,
        activations: Any,
        backprops: Tensor,
    ) -> bool:
        """Whether the norm of this use is made without gradients."""
        mode = self.mode_of(name)
        if mode in FORCED:
            return mode == "ghost"
        if not rule.prefers_ghost(layer, activations, backprops):
            return False
        return not self._has_better(rule, layer, activations, backprops)

    def _has_better(
        self,
        rule: GradientRule[Any, Any],
        layer: nn.Module,
        activations: Any,
        backprops: Tensor,
    ) -> bool:
        """Whether norms without gradients would take float64, and there is a choice."""
        if rule.excess(layer, activations, backprops) <= UNSEEN:
            return False
        return rule.multiply_adds(layer, activations, backprops) is not None

    def explain(self, asked: NormRequest) -> NormChoice:
        """Return what was chosen when this was asked, and why."""
        name, rule, layer = asked[:3]
        activations = tree_map(TensorSpec.drawn, asked.activations)
        backprops = asked.backprops.drawn()
        mode = self.mode_of(name)
        cost = rule.multiply_adds(layer, activations, backprops)
        ghost = self.chooses_ghost(name, rule, layer, activations, backprops)
        forced = f"clipping_mode {mode!r}" if mode in FORCED else ""
        avoided = ""
        if not ghost and rule.prefers_ghost(layer, activations, backprops):
            avoided = "float32 would be seen in norms without gradients"
        return NormChoice(
            layer=name,
            kind=getattr(layer, "kind", type(layer).__name__),
            input_shapes=tuple(tuple(x.shape) for x in tensors_of(activations)),
            output_shape=tuple(backprops.shape),
            norm_method="ghost" if ghost else "instantiate",
            multiply_adds=cost,
            reason=forced or avoided or _reason(cost, ghost),
        )


def lies_under(name: str, above: str) -> bool:
    """Whether a module's name is ``above`` or inside it; "" is above all."""
    return not above or name == above or name.startswith(f"{above}.")


def check_layer_names(mode: ClippingMode, module: nn.Module) -> None:
    """Raise ConfigError if a mode is given for a layer that there is not."""
    names = {name for name, _ in module.named_modules()}
    for name in {} if isinstance(mode, str) else mode:
        if name not in names:
            raise ConfigError(
                "clipping_mode",
                f"clipping_mode must name modules of the model; got {name!r}, and "
                f"there are {', '.join(sorted(n for n in names if n))}.",
            )


def _reason(cost: MultiplyAdds | None, ghost: bool) -> str:
    if cost is None:
        return "the only cheap way of this kind of layer"
    if cost.ghost == cost.instantiate:
        return "as many multiply-adds either way"
    if ghost == (cost.ghost < cost.instantiate):
        return "fewer multiply-adds"
    return "quicker at this shape though not fewer multiply-adds"
