"""Rules for layers whose forward is replaced to record its parts.

No module has the gates of a recurrent layer, or the projections inside attention, as
its output.  While a pass is recorded, the forward of such a layer is replaced by an
equal forward that passes them to a :class:`CallRecorder`.  The module and its state
dict do not change.  The rules of expanded parameters and of gradients that are
computed early are also defined here.
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
        layer: The layer.
        names: {name that the rule uses: name in the layer}.
        start, stop: Range of rows; all rows if ``stop`` is None.
        kind: Name of the part in an explanation.
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
        # nn.Module's ``__setattr__`` would register the parameters a second time.
        object.__setattr__(self, "whole", parameters)

    def __getattr__(self, name: str) -> Any:
        """Returns detached rows of a parameter with the parameter's requires_grad."""
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
        """Returns True if a parameter is trained; a pass turns requires_grad off."""

    def linear(self, part: LayerPart, inputs: Tensor, *, batch_dim: int = 0) -> Tensor:
        """Returns inputs weight^T + bias, recorded; inputs [B, T, d] or [T, B, d]."""

    def expanded(self, layer: nn.Module, name: str) -> Tensor:
        """Returns a parameter as one copy per sample, [B, *shape], recorded."""

    def add_call(
        self, rule: GradientRule[Any, Any], part: nn.Module, activations: Any
    ) -> BackpropCallback:
        """Records a call; returns the function to call with the output's gradient."""

    def batch_dim(
        self, label: str, shape: tuple[int, ...], dims: int, *, likely: int = 0
    ) -> int | None:
        """Returns the one of the leading ``dims`` dimensions that counts the samples.

        The result is None if all samples share the tensor.  The label names a tensor of
        a call, equal in every pass.  If several dimensions fit, ``likely`` decides.
        """

    def note_shared(self) -> None:
        """Notes that the output is the same for all samples."""

    def knows_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Returns True if the shapes of these labels are known for two batch sizes.

        It is always True outside the passes that learn shapes, which store them.
        """


class Rewrite(Rule[LayerT], Generic[LayerT]):
    """A rule that replaces the layer's forward while a pass is recorded."""

    @abstractmethod
    def forward(
        self,
        layer: LayerT,
        original: Callable[..., Any],
        recorder: CallRecorder,
        args: Any,
        kwargs: Any,
    ) -> Any:
        """Returns the output of ``original(*args, **kwargs)``.

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


class EarlyGradientsRule(GradientRule[nn.Module, dict[str, Tensor]]):
    """A layer whose gradients were computed when its backprops arrived.

    The activations of the call are the gradients, {local name: [B, *shape]}; inputs and
    backprops are not stored until the end of backward.  The rule applies to layers that
    train a bias alone, and to layers whose gradients are smaller than their inputs.

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
