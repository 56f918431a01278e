"""Chooses a norm method per layer; both methods give equal updates up to rounding.

A ghost norm costs T^2 (d + p) multiply-adds per sample of a linear layer, an
instantiated gradient T d p (Bu, Mao and Xu 2022).  With T = 1, d = 1000 and p = 100
that is 1,100 against 100,000; with T = 1024 positions of a small convolution, d = 27
and p = 32, it is 62 million against 0.9 million.  So no method is best for all layers,
and the "Mix" modes choose for the shapes of each call, by an estimate of constants
(``layers.matrix_norm``) that are the same on every processor.

Sources: Bu, Mao and Xu (2022), arXiv:2205.10683 (mixed ghost clipping); Bu et al.
(2022), arXiv:2210.00038 (MixGhostClip and MixOpt on book-keeping).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpsgd_explorer.dp.layers.base import GradientRule
from dpsgd_explorer.dp.layers.ghost_norm import GhostNorm, MultiplyAdds
from dpsgd_explorer.dp.layers.round_off import MAX_INFLATION
from dpsgd_explorer.dp.modules.pytree import map_tensors, tensors_of
from dpsgd_explorer.errors import ConfigError

#: {mode: description}.  The last two force a method.  The first two let the rule
#: choose for the shapes of each pass.  "MixOpt" stores the gradients of a norm for the
#: sum, and "MixGhostClip" computes them again.
CLIPPING_MODES: dict[str, str] = {
    "MixOpt": "the cheaper method at each shape; gradients are stored for the sum",
    "MixGhostClip": (
        "the cheaper method at each shape; gradients are computed again for the sum"
    ),
    "ghost": "norms without per-sample gradients",
    "instantiate": "norms of per-sample gradients, which are stored for the sum",
}
DEFAULT_MODE = "MixOpt"
#: Modes that force a method.
FORCED_MODES = ("ghost", "instantiate")

#: One mode for all layers, or {layer's name or the start of it: mode}.
ClippingMode = str | Mapping[str, str]


def mode_of(modes: ClippingMode, name: str) -> str:
    """Returns the mode of a layer, by the longest name in ``modes`` that contains it.

    With {"": "ghost", "body": "MixOpt"} the layer "body.0" has "MixOpt".
    """
    if isinstance(modes, str):
        return modes
    ancestors = [ancestor for ancestor in modes if _is_within(name, ancestor)]
    return modes[max(ancestors, key=len)] if ancestors else DEFAULT_MODE


def chosen_ghost_norm(
    mode: str,
    rule: GradientRule[Any, Any],
    layer: nn.Module,
    activations: Any,
    backprops: Tensor,
) -> GhostNorm[Any, Any] | None:
    """Returns the ghost norm of a layer call; None if gradients are instantiated.

    Only shapes and dtypes decide, never a value of the data.
    """
    ghost = rule.ghost_norm
    if ghost is None or mode == "instantiate":
        return None
    if mode == "ghost":
        return ghost
    if not ghost.cost_ratio(layer, activations, backprops) < 1:
        return None
    # Above MAX_INFLATION the ghost norm would be computed in float64, whose products
    # cost twice as much as the rule estimates, so gradients are instantiated if the
    # rule has that choice.
    if ghost.inflation(layer, activations, backprops) <= MAX_INFLATION:
        return ghost
    has_choice = ghost.multiply_adds(layer, activations, backprops) is not None
    return None if has_choice else ghost


@dataclass(frozen=True)
class NormChoice:
    """The norm method of one layer call in the last pass, and the reason.

    Attributes:
        layer: Name of the layer.
        kind: Type of the layer, or name of the part of it.
        input_shapes: Shapes of the saved activations, samples first.
        output_shape: Shape of the output, samples first.
        norm_method: "ghost" or "instantiate".
        multiply_adds: Cost of both methods per sample; None if the rule has one method.
        reason: The reason in words.
    """

    layer: str
    kind: str
    input_shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    norm_method: str
    multiply_adds: MultiplyAdds | None
    reason: str


class TensorSpec:
    """Shape and dtype of a tensor, without its entries, which would hold memory."""

    __slots__ = ("dtype", "shape")

    def __init__(self, values: Tensor) -> None:
        self.shape, self.dtype = values.shape, values.dtype

    def empty(self) -> Tensor:
        """Returns a tensor of this shape and dtype without storage (device "meta")."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta")


#: Specs of a call's activations, as a tree, and of its backprops.
CallSpecs = tuple[Any, TensorSpec]


def specs_of(activations: Any, backprops: Tensor) -> CallSpecs:
    """Returns the specs of a call's tensors."""
    return map_tensors(TensorSpec, activations), TensorSpec(backprops)


def explained(
    name: str,
    mode: str,
    rule: GradientRule[Any, Any],
    layer: nn.Module,
    specs: CallSpecs,
    *,
    is_ghost: bool,
) -> NormChoice:
    """Returns the choice for a call of the layer with this name, and its reason."""
    activations, backprops = tree_map(TensorSpec.empty, specs[0]), specs[1].empty()
    inputs = layer, activations, backprops
    ghost = rule.ghost_norm
    cost = None if ghost is None else ghost.multiply_adds(*inputs)
    if ghost is None:
        reason = _reason(None, is_ghost)
    elif mode in FORCED_MODES:
        reason = f"clipping_mode {mode!r}"
    elif not is_ghost and ghost.cost_ratio(*inputs) < 1:
        reason = "float32 is too imprecise for norms without gradients"
    else:
        reason = _reason(cost, is_ghost)
    return NormChoice(
        layer=name,
        kind=getattr(layer, "kind", type(layer).__name__),
        input_shapes=tuple(tuple(x.shape) for x in tensors_of(activations)),
        output_shape=tuple(backprops.shape),
        norm_method="ghost" if is_ghost else "instantiate",
        multiply_adds=cost,
        reason=reason,
    )


def check_layer_names(mode: ClippingMode, module: nn.Module) -> None:
    """Raises ConfigError if a mode is given for a layer that does not exist."""
    names = {name for name, _ in module.named_modules()}
    for name in {} if isinstance(mode, str) else mode:
        if name not in names:
            raise ConfigError(
                "clipping_mode",
                f"clipping_mode must name modules of the model, got {name!r}. The "
                f"modules are {', '.join(sorted(n for n in names if n))}.",
            )


def _is_within(name: str, ancestor: str) -> bool:
    """Returns True if ``ancestor`` is the module or contains it; "" is the root."""
    return not ancestor or name == ancestor or name.startswith(f"{ancestor}.")


def _reason(cost: MultiplyAdds | None, ghost: bool) -> str:
    if cost is None:
        return "the only cheap method for this kind of layer"
    if cost.ghost == cost.instantiate:
        return "both methods need the same number of multiply-adds"
    if ghost == (cost.ghost < cost.instantiate):
        return "fewer multiply-adds"
    return "faster at this shape, although not fewer multiply-adds"
