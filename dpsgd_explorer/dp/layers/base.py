"""The rule of a layer: its per-sample gradients, their norms, and their weighted sum.

Notation of all rules: B samples, T positions, d inputs, p outputs; ``activations``
are the layer's inputs x, ``backprops`` the gradients g of the loss with respect to
its outputs.  Both carry the sample in their first dimension.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import LinearMap, OuterProductCall
from dpsgd_explorer.dp.layers.outer_products import OuterProduct

T = TypeVar("T")
LayerT = TypeVar("LayerT", bound=nn.Module)
ActivationsT = TypeVar("ActivationsT")


class MultiplyAdds(NamedTuple):
    """The multiply-adds of one sample's squared norm by either method.

    Attributes:
        ghost: Without the gradient, by two Gram matrices.
        instantiate: With the gradient.
    """

    ghost: int
    instantiate: int


#: Methods of a rule in place of which its ``linear_maps`` are made.
OF_MAPS = ("per_sample_gradients", "measured_gradients")
#: Methods of a rule that are made of its gradients.
_OF_GRADIENTS = (*OF_MAPS, "squared_norms", "weighted_gradients")


class Rule(ABC, Generic[LayerT]):
    """The base of all rules: which layers and parameters a rule covers."""

    #: Methods that compute the layer's output.  A subclass of the layer that overrides
    #: none of them computes the same function, and has its parent's rule.
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
        """Returns the reason why the settings are unsupported; "" if there is none."""
        return ""


class GradientRule(Rule[LayerT], Generic[LayerT, ActivationsT]):
    """Per-sample gradients of one kind of layer, from its activations and backprops.

    Only :meth:`saved_activations` and :meth:`per_sample_gradients` are required.  The
    other methods have slow defaults by these gradients; a rule overrides them where
    algebra gives the same numbers in less time or memory.

    Activations are a tensor or a tuple of tensors, each with one row per sample.
    """

    #: Whether most rows of a gradient are 0, as an embedding's.
    few_rows: ClassVar[bool] = False
    #: Whether gradients are exact products of the numbers of activations and backprops,
    #: so that these may be bfloat16 where a forward computes in it.
    of_low_precision: ClassVar[bool] = False
    #: Whether a sample's gradients are smaller than the inputs that they are made of,
    #: as those of a normalisation layer; see ``makes_early``.
    small_gradients: ClassVar[bool] = False

    def check(self, layer: LayerT, args: Any, kwargs: Any) -> None:
        """Check the inputs of a call before the layer runs.

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

        Gradients of a parameter have the shape ``(B, *parameter.shape)``.

        Args:
            layer: The layer.
            activations: The result of ``saved_activations``, ``(B, ...)``.
            backprops: Gradient of the loss with respect to the layer's output, ``(B,
                ...)``.
        """

    def added_gradients(
        self,
        layer: LayerT,
        activations: ActivationsT,
        backprops: Tensor,
        gradients: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Return ``{name: gradients[name] + the call's own}``, in new memory.

        A rule with ``few_rows`` does it without making its own.
        """
        own = self.per_sample_gradients(layer, activations, backprops)
        return {name: gradients[name] + gradient for name, gradient in own.items()}

    def measured_gradients(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Return ``per_sample_gradients``, and their squared norms together, [B].

        Never too small.  A rule may know them once the gradients are made.
        """
        gradients = self.per_sample_gradients(layer, activations, backprops)
        return gradients, gradient_squared_norms(gradients)

    def overrides(self, base: type[GradientRule[Any, Any]], *names: str) -> bool:
        """Whether the rule has methods of its own in place of a base's.

        What the base knows of their results does not hold then, and it asks for them.
        """
        own = type(self)
        return own is not base and any(
            getattr(own, name) is not getattr(base, name) for name in names
        )

    def squared_norms(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> Tensor:
        """Returns squared L2 norms over the layer's trainable parameters, ``(B,)``.

        A norm must not be smaller than the norm of the gradient that
        ``weighted_gradients`` adds, rounding included: otherwise a sample could
        contribute more than C.
        """
        return gradient_squared_norms(
            self.per_sample_gradients(layer, activations, backprops)
        )

    def bias_gradients(self, layer: LayerT, backprops: Tensor) -> Tensor | None:
        """Return the bias's gradients, ``[B, *shape]``, from the backprops alone.

        None if the rule has no such sum.
        """
        return None

    def sums_bias(self) -> bool:
        """Whether ``bias_gradients`` are those of the rule.

        A rule that inherits them with gradients of its own makes others.
        """
        base = self._definer_of("bias_gradients")
        return base is not GradientRule and not self.overrides(base, *_OF_GRADIENTS)

    def makes_early(self) -> bool:
        """Whether gradients are made when backprops arrive, and inputs let go.

        So it is where they are small, unless a rule that inherits this has norms or
        sums of its own.
        """
        if not self.small_gradients:
            return False
        others = [name for name in _OF_GRADIENTS if name != "per_sample_gradients"]
        return not self.overrides(self._definer_of("small_gradients"), *others)

    def _definer_of(self, name: str) -> type[Any]:
        """Return the class whose attribute of this name the rule has."""
        return next(kind for kind in type(self).__mro__ if name in vars(kind))

    def single_position(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> OuterProductCall | None:
        """Return the call, if each sample's gradients are g x^T and g, of all its rows.

        Such calls are measured and summed together, without ``squared_norms``,
        ``excess`` and ``weighted_gradients``.
        """
        return None

    def linear_maps(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> Mapping[str, LinearMap]:
        """Return {suffix: map}, if the gradients are those of linear maps.

        Parameters are "weight" and "bias" with the suffix.  A backend may compute and
        sum the gradients of several calls together, without ``measured_gradients``; {}
        for others.
        """
        return {}

    def weighted_gradients(
        self,
        layer: LayerT,
        activations: ActivationsT,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        """Adds sum_i weights[i] * gradient_i to ``sums``, in place.

        ``weights`` are clipping factors, ``(B,)``; ``sums`` is {name: tensor of the
        parameter's shape}.
        """
        add_weighted(
            self.per_sample_gradients(layer, activations, backprops), weights, sums
        )

    def multiply_adds(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> MultiplyAdds | None:
        """Return the cost of either norm method; None if the rule has one only.

        Like ``prefers_ghost`` it depends on shapes alone, never on a value.
        """
        return None

    def cost_ratio(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> float:
        """Return the estimated time of the ghost norm over that of the other method.

        inf if the rule has only the other, 0 if the ghost norm is always quicker.
        """
        cost = self.multiply_adds(layer, activations, backprops)
        return math.inf if cost is None else cost.ghost / max(1, cost.instantiate)

    def prefers_ghost(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> bool:
        """Whether the ghost norm is estimated the quicker method for these shapes."""
        return self.cost_ratio(layer, activations, backprops) < 1

    def excess(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> float:
        """Return the relative lengthening of the ghost norm by float32's error bound.

        It depends on shapes alone.  Above UNSEEN the engine instantiates gradients, or
        passes float64 tensors to the rule.
        """
        return 0.0

    def factors(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> dict[str, OuterProduct] | None:
        """Return {local name: gradients as sums of outer products}.

        For parameters with several calls, whose norms take cross terms.  None if the
        gradients have no such form; they are instantiated instead.
        """
        return None


class LayerRule(GradientRule[LayerT, Tensor], Generic[LayerT]):
    """The base class of a rule for a layer of your own.

    A rule computes per-sample gradients from two tensors: ``activations``, the first
    input of the layer, and ``backprops``, the gradient of the loss with respect to the
    output of the layer.  Both have shape ``(B, ...)`` and one row per sample.

    A subclass must define ``per_sample_gradients``.  Its result has shape
    ``(B, *parameter.shape)`` for each trainable parameter.  The other methods have
    defaults that use these gradients.  Override ``squared_norms`` and
    ``weighted_gradients`` if algebra yields their values in less time or memory.
    ``register_rule`` registers an instance.

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
        >>> norms = rule.squared_norms(Shift(2), torch.ones(2, 2), backprops).sqrt()
        >>> norms.round(decimals=3)
        tensor([ 5., 10.])
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
        """Return the number of leading dimensions that the layer treats alike.

        The samples may be in any of them, or in none where all samples share one input.
        0: the samples are always in the first dimension.
        """
        return 0


class BadInputError(ValueError):
    """An input that a layer does not take in a batch; the engine adds the name."""


def gradient_squared_norms(gradients: Mapping[str, Tensor]) -> Tensor:
    """Return the squared norms of {name: [B, *shape]} taken together, [B].

    Never too small.
    """
    every = list(gradients.values())
    backend = backend_of(every[0])
    return backend.sum_of(backend.squared_norms(every).unbind(0))


def measured(
    gradients: dict[str, Tensor], norms: Tensor | None
) -> tuple[dict[str, Tensor], Tensor]:
    """Return gradients with their squared norms, which are computed if not known."""
    return gradients, gradient_squared_norms(gradients) if norms is None else norms


def add_weighted(
    gradients: Mapping[str, Tensor], weights: Tensor, sums: Mapping[str, Tensor]
) -> None:
    """Add sum_i weights[i] * gradients[name][i] to sums[name]."""
    if gradients:
        every, totals = list(gradients.values()), [sums[name] for name in gradients]
        backend_of(weights).add_weighted(every, [weights] * len(every), totals)


def trains(layer: nn.Module, name: str) -> bool:
    """Whether the layer has this parameter and wants its gradient.

    The engine asks autograd for no parameter gradient, so ``requires_grad`` is off
    while a pass is recorded; rules are called when it is on again.
    """
    # Registered parameters are read directly: nn.Module's look-up takes 1 µs.
    parameter = layer._parameters.get(name)
    if parameter is None:
        parameter = getattr(layer, name, None)
    return parameter is not None and bool(parameter.requires_grad)


def trained(layer: nn.Module, entries: Mapping[str, T]) -> dict[str, T]:
    """Return the entries of the parameters that the layer trains, by local name."""
    return {name: entry for name, entry in entries.items() if trains(layer, name)}


def scale_samples(values: Tensor, weights: Tensor) -> Tensor:
    """Return weights[i] * values[i] for every sample i, [B, ...]."""
    return values * weights.view(-1, *[1] * (values.dim() - 1))
