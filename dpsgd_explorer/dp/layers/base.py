"""The rule of a layer: its per-sample gradients, their norms, and their weighted sum.

Notation of all rules: B samples, T positions, d inputs, p outputs; ``activations``
are the layer's inputs x, ``backprops`` the gradients g of the loss with respect to
its outputs.  Both carry the sample in their first dimension.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import LinearMap
from dpsgd_explorer.dp.layers.ghost_norm import (
    ActivationsT,
    GhostNorm,
    LayerT,
    drop_inherited,
)

T = TypeVar("T")


class Rule(ABC, Generic[LayerT]):
    """The base of all rules: which layers and parameters a rule covers."""

    #: Methods that compute the layer's output.  A subclass of the layer that overrides
    #: none of them computes an equal function, and has the rule of the parent class.
    forward_methods: ClassVar[tuple[str, ...]] = ("forward",)
    #: Names of the parameters that the rule covers; a layer with another trainable
    #: parameter does not get the rule.
    parameter_names: ClassVar[tuple[str, ...]] = ("weight", "bias")

    #: If True, the rule also covers the parameters of the modules inside the layer.
    includes_children: ClassVar[bool] = False
    #: If True, the rule reads values of the parameters and not only their shapes: such
    #: a layer cannot be sharded.
    reads_parameters: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def knows(self, layer: LayerT, name: str) -> bool:
        """Returns True if the rule covers the parameter of this name."""
        return name in self.parameter_names

    def refusal(self, layer: LayerT) -> str:
        """Returns the reason why the settings are unsupported, else ""."""
        return ""


class GradientRule(Rule[LayerT], Generic[LayerT, ActivationsT]):
    """Per-sample gradients of one kind of layer, from its activations and backprops.

    Only :meth:`saved_activations` and :meth:`per_sample_gradients` are required.
    Activations are a tensor or a tuple of tensors, each with one row per sample.

    The other members describe these gradients a second time, for speed or memory.  A
    subclass that overrides ``per_sample_gradients`` has other gradients, so it inherits
    none of these descriptions; see ``_GRADIENT_FORMS``.
    """

    #: Norms and sums without gradients; None if the rule has only gradients.
    ghost_norm: ClassVar[GhostNorm[Any, Any] | None] = None
    #: If True, gradients are exact products of the numbers of activations and
    #: backprops, so that these may be bfloat16 where a forward computes in it.
    of_low_precision: ClassVar[bool] = False
    #: If True, the gradients of a bias that is trained alone need only backprops: no
    #: activations are saved, and ``per_sample_gradients`` receives ``()`` for them.
    bias_needs_no_activations: ClassVar[bool] = False
    #: If True, a sample's gradients are smaller than the activations, as in a
    #: normalization layer; see ``computes_early``.
    small_gradients: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        drop_inherited(cls, GradientRule, ("per_sample_gradients",), _GRADIENT_FORMS)
        measured = "ghost_norm", "measured_gradients"
        drop_inherited(cls, GradientRule, measured, ("linear_form",))

    def check(self, layer: LayerT, args: Any, kwargs: Any) -> None:
        """Checks the inputs of a call before the layer runs.

        Raises:
            BadInputError: the layer does not take such inputs in a batch.
        """

    @abstractmethod
    def saved_activations(self, layer: LayerT, args: Any, kwargs: Any) -> ActivationsT:
        """Returns the activations of a call that the engine saves, samples first."""

    @abstractmethod
    def per_sample_gradients(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> dict[str, Tensor]:
        """Returns {name: gradients of each sample} of the layer's trainable parameters.

        Gradients of a parameter have the shape ``(B, *parameter.shape)``.  They must be
        new tensors: the engine may keep them until the end of the step.

        Args:
            layer: The layer.
            activations: The result of ``saved_activations``, ``(B, ...)``.
            backprops: Gradient of the loss with respect to the layer's output, ``(B,
                ...)``.
        """

    def measured_gradients(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Returns ``per_sample_gradients``, and their squared norms together, ``(B,)``.

        A norm is never too small.  A rule overrides this method if it computes norms
        together with the gradients.
        """
        gradients = self.per_sample_gradients(layer, activations, backprops)
        return gradients, gradient_squared_norms(gradients)

    def linear_form(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> Mapping[str, LinearMap]:
        """Returns {suffix: map} if the gradients are gradients of linear maps, else {}.

        A map's parameters are "weight" and "bias" with the suffix.  A backend may
        compute and sum the gradients of several calls together, without the other
        methods of the rule and without its ghost norm.
        """
        return {}

    def computes_early(self) -> bool:
        """Returns True if gradients are computed as soon as backprops arrive.

        The inputs are freed then.  A rule with a ghost norm needs them later.
        """
        return self.small_gradients and self.ghost_norm is None


#: Descriptions of a rule's gradients other than ``per_sample_gradients``.
_GRADIENT_FORMS = (
    "ghost_norm",
    "measured_gradients",
    "linear_form",
    "of_low_precision",
    "bias_needs_no_activations",
)


class LayerRule(GradientRule[LayerT, Tensor], Generic[LayerT]):
    """The base class of a rule for a layer of your own.

    A rule computes per-sample gradients from two tensors: ``activations``, the first
    input of the layer, and ``backprops``, the gradient of the loss with respect to the
    output of the layer.  Both have shape ``(B, ...)`` and one row per sample.

    A subclass must define ``per_sample_gradients``.  Its result has shape
    ``(B, *parameter.shape)`` for each trainable parameter.  If algebra yields norms and
    sums without these gradients, set the attribute ``ghost_norm`` to a ``GhostNorm``.
    ``check_rule`` compares a rule with autograd, and ``register_rule`` registers it.

    The class attribute ``parameter_names`` lists the parameters that the rule covers,
    by default "weight" and "bias".  A layer with another trainable parameter does not
    use the rule.

    Source: Goodfellow (2015), arXiv:1510.01799 (gradients from the inputs of layers and
    the gradients of their outputs).

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> class Shift(nn.Module):
        ...     def __init__(self, features):
        ...         super().__init__()
        ...         self.bias = nn.Parameter(torch.zeros(features))
        ...
        ...     def forward(self, x):  # (B, d)
        ...         return x + self.bias
        >>> class ShiftRule(dp.LayerRule[Shift]):
        ...     parameter_names = ("bias",)
        ...     reads_parameters = False
        ...
        ...     def per_sample_gradients(self, layer, activations, backprops):
        ...         return {"bias": backprops}  # (B, d)
        >>> rule = ShiftRule()
        >>> rule
        ShiftRule()
        >>> backprops = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
        >>> rule.per_sample_gradients(Shift(2), torch.ones(2, 2), backprops)
        {'bias': tensor([[3., 4.],
                [6., 8.]])}
    """

    def check(self, layer: LayerT, args: Any, kwargs: Any) -> None:
        inputs = self.saved_activations(layer, args, kwargs)
        reason = self.wrong_input(layer, inputs)
        if reason:
            raise BadInputError(f"{reason}, got shape {list(inputs.shape)}")

    def saved_activations(self, layer: LayerT, args: Any, kwargs: Any) -> Tensor:
        inputs: Tensor = args[0] if args else next(iter(kwargs.values()))
        return inputs

    def wrong_input(self, layer: LayerT, inputs: Tensor) -> str:
        """Returns the condition that an input does not meet, or "" if it meets all."""
        return ""

    def position_dims(self, layer: LayerT, inputs: Tensor) -> int:
        """Returns the number of leading dimensions that the layer treats alike.

        The samples may be in any of these dimensions, or all samples may share one
        input.  If the number is 0, the samples are always in the first dimension.
        """
        return 0


class BadInputError(ValueError):
    """Raised for an input that a layer does not support; the engine adds the name."""


def gradient_squared_norms(gradients: Mapping[str, Tensor]) -> Tensor:
    """Returns squared norms over all parameters of {name: [B, *shape]}, [B].

    A norm is never too small.
    """
    values = list(gradients.values())
    backend = backend_of(values[0])
    return backend.sum_of(backend.squared_norms(values).unbind(0))


def measured(
    gradients: dict[str, Tensor], norms: Tensor | None
) -> tuple[dict[str, Tensor], Tensor]:
    """Returns gradients and their squared norms, which it computes if None."""
    return gradients, gradient_squared_norms(gradients) if norms is None else norms


def add_weighted(
    gradients: Mapping[str, Tensor], weights: Tensor, sums: Mapping[str, Tensor]
) -> None:
    """Adds sum_i weights[i] * gradients[name][i] to sums[name]."""
    if gradients:
        values, totals = list(gradients.values()), [sums[name] for name in gradients]
        backend_of(weights).add_weighted(values, [weights] * len(values), totals)


def trains(layer: nn.Module, name: str) -> bool:
    """Returns True if the layer has this parameter and the parameter is trained.

    Autograd computes no parameter gradient, so ``requires_grad`` is off while a pass is
    recorded.  Rules are called when it is on again.
    """
    # Registered parameters are read directly, because nn.Module's look-up takes 1 µs.
    parameter = layer._parameters.get(name)
    if parameter is None:
        parameter = getattr(layer, name, None)
    return parameter is not None and bool(parameter.requires_grad)


def trained(layer: nn.Module, entries: Mapping[str, T]) -> dict[str, T]:
    """Returns the entries of the parameters that the layer trains, by local name."""
    return {name: entry for name, entry in entries.items() if trains(layer, name)}


def scale_samples(values: Tensor, weights: Tensor) -> Tensor:
    """Returns weights[i] * values[i] for every sample i, [B, ...]."""
    return values * weights.view(-1, *[1] * (values.dim() - 1))
