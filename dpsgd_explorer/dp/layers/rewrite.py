"""Rules for layers whose forward is replaced to record its parts.

A recurrent layer's gates, or the projections inside attention, are outputs of no
module.  While a pass is recorded, such a layer's forward is replaced by an equal one
that passes them to a :class:`CallRecorder`; the module and its state dict are
unchanged.  Parameters that are expanded, and gradients made early, have rules here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol

from torch import Tensor, nn

from dpsgd_explorer.dp.layers.base import GradientRule, Rule
from dpsgd_explorer.dp.layers.ghost_norm import LayerT

#: Called with the gradient of an output, [B, ...].
BackpropCallback = Callable[[Tensor], None]


class LayerPart(nn.Module):
    """Some parameters of a layer, or rows of them, under the names of another rule.

    Args:
        layer: Their layer.
        names: {name that the rule uses: the layer's name for it}.
        start, stop: The rows; all of them if ``stop`` is None.
        kind: Its name in an explanation.
    """

    def __init__(
        self,
        layer: nn.Module,
        names: Mapping[str, str],
        *,
        start: int = 0,
        stop: int | None = None,
        kind: str = "",
    ) -> None:
        super().__init__()
        self.names, self.start, self.stop = dict(names), start, stop
        self.kind = kind or type(layer).__name__
        parameters = {name: layer.get_parameter(path) for name, path in names.items()}
        object.__setattr__(
            self, "whole", parameters
        )  # registered, they would be parameters twice

    def __getattr__(self, name: str) -> Any:
        """Return the rows of a parameter, detached, wanting a gradient if it does."""
        whole = vars(self).get("whole", {})
        if name not in whole:
            return super().__getattr__(name)
        parameter: Tensor = whole[name]
        rows = parameter.detach()
        if self.stop is not None:
            rows = rows[self.start : self.stop]
        return rows.requires_grad_(parameter.requires_grad)

    @property
    def in_features(self) -> int:
        """Number of inputs of a linear map."""
        return int(self.whole["weight"].shape[1])

    @property
    def out_features(self) -> int:
        """Number of outputs of a linear map."""
        return len(self.weight)


class CallRecorder(Protocol):
    """Records the calls inside a rewritten forward.

    Attributes:
        batch_size: B.
    """

    batch_size: int

    def is_trained(self, parameter: Tensor) -> bool:
        """Whether a parameter is trained; ``requires_grad`` is off during a pass."""

    def linear(self, part: LayerPart, inputs: Tensor, *, batch_dim: int = 0) -> Tensor:
        """Return inputs weight^T + bias, recorded; inputs [B, T, d] or [T, B, d]."""

    def expanded(self, layer: nn.Module, name: str) -> Tensor:
        """Return a parameter expanded to one copy per sample, [B, *shape], recorded."""

    def add_call(
        self, rule: GradientRule[Any, Any], part: nn.Module, activations: Any
    ) -> BackpropCallback:
        """Record a call; return the function to call with its output's gradient."""

    def batch_dim(
        self, label: str, shape: tuple[int, ...], dims: int, *, likely: int = 0
    ) -> int | None:
        """Return which of the leading ``dims`` dimensions counts the samples.

        None if all samples share the tensor.  The label names a tensor of a call, the
        same in every pass; ``likely`` decides where several dimensions fit.
        """


class Rewrite(Rule[LayerT], Generic[LayerT]):
    """A rule that replaces the layer's forward while a pass is recorded."""

    @abstractmethod
    def forward(
        self,
        layer: LayerT,
        own_forward: Callable[..., Any],
        recorder: CallRecorder,
        args: Any,
        kwargs: Any,
    ) -> Any:
        """Return what ``own_forward(*args, **kwargs)`` would.

        Raises:
            BadInputError: the layer does not take such inputs in a batch.
        """


class ExpandedRule(GradientRule[nn.Module, tuple[()]]):
    """A parameter ``value`` expanded to one copy per sample, [B, *shape].

    The gradient of copy i is the gradient of sample i.
    """

    def saved_activations(self, layer: nn.Module, args: Any, kwargs: Any) -> tuple[()]:
        return ()

    def per_sample_gradients(
        self, layer: nn.Module, activations: tuple[()], backprops: Tensor
    ) -> dict[str, Tensor]:
        return {"value": backprops}


class MadeGradientsRule(GradientRule[nn.Module, dict[str, Tensor]]):
    """A layer whose gradients were made when its backprops arrived.

    They are the activations of its call, {local name: [B, *shape]}; neither inputs nor
    backprops are held until the end of backward.  So it is with layers that train a
    bias alone, and with those whose gradients are smaller than their inputs.

    Source: Bu et al. (2022), arXiv:2210.00036 (private training of biases alone needs
    no activations).
    """

    def saved_activations(
        self, layer: nn.Module, args: Any, kwargs: Any
    ) -> dict[str, Tensor]:
        return {}

    def per_sample_gradients(
        self, layer: nn.Module, activations: dict[str, Tensor], backprops: Tensor
    ) -> dict[str, Tensor]:
        return activations
