"""Norms and sums of a layer's gradients that need no gradients.

Source: Li et al. (2022), arXiv:2110.05679, section 4 (there called ghost clipping).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from dpsgd_explorer.dp.layers.cross_terms import OuterProduct

LayerT = TypeVar("LayerT", bound=nn.Module)
ActivationsT = TypeVar("ActivationsT")


def drop_inherited(
    kind: type[Any], base: type[Any], described: tuple[str, ...], forms: tuple[str, ...]
) -> None:
    """Replaces descriptions of other results than those of a new class by the base's.

    Args:
        kind: A class that has just been created.
        base: The class with the defaults of ``forms``.
        described: Attributes that define the results.
        forms: Attributes that describe the same results.  ``kind`` keeps a form only if
            no attribute of ``described`` comes from a class nearer to ``kind``.
    """
    order = kind.__mro__

    def distance(name: str) -> int:
        return next(i for i, parent in enumerate(order) if name in vars(parent))

    nearest = min(map(distance, described))
    for form in forms:
        if distance(form) > nearest:
            setattr(kind, form, getattr(base, form))


class MultiplyAdds(NamedTuple):
    """The multiply-adds of one sample's squared norm by either method.

    Attributes:
        ghost: Without the gradient, by two Gram matrices.
        instantiate: With the gradient.
    """

    ghost: int
    instantiate: int


class GhostNorm(ABC, Generic[LayerT, ActivationsT]):
    """Norms and weighted sums of a layer's gradients, computed without the gradients.

    Optional part of a rule: set the attribute ``ghost_norm`` of the rule to an
    instance.  The engine then calls :meth:`squared_norms` and :meth:`add_weighted` in
    place of ``per_sample_gradients`` if :meth:`cost_ratio` is below 1, or if
    ``clipping_mode`` is "ghost".

    Source: Li et al. (2022), arXiv:2110.05679, section 4.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> class Kernel(nn.Module):
        ...     def __init__(self, inputs, outputs):
        ...         super().__init__()
        ...         self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        ...
        ...     def forward(self, x):  # (B, inputs)
        ...         return x @ self.weight
        >>> class KernelNorm(dp.GhostNorm):
        ...     def squared_norms(self, layer, activations, backprops):
        ...         x, g = activations.double(), backprops.double()
        ...         return (1 + 1e-6) * x.square().sum(1) * g.square().sum(1)
        ...
        ...     def add_weighted(self, layer, activations, backprops, weights, sums):
        ...         sums["weight"].addmm_((activations * weights[:, None]).T, backprops)
        >>> x, g = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0]])
        >>> KernelNorm().squared_norms(Kernel(2, 1), x, g).sqrt().round(decimals=3)
        tensor([10.], dtype=torch.float64)
    """

    #: If True, ``outer_products`` have ids in place of one-hot rows, and the gradients
    #: are added row by row to the gradients of other calls.
    has_ids: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        computed = "squared_norms", "add_weighted"
        drop_inherited(cls, GhostNorm, computed, ("outer_products",))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def squared_norms(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> Tensor:
        """Returns squared L2 norms over the layer's trainable parameters, ``(B,)``.

        A norm must not be smaller than the norm of the gradient that
        ``add_weighted`` adds, rounding included: otherwise a sample could contribute
        more than ``max_grad_norm``.

        Args:
            layer: The layer.
            activations: The result of the rule's ``saved_activations``, ``(B, ...)``.
            backprops: Gradient of the loss with respect to the layer's output, ``(B,
                ...)``.
        """

    @abstractmethod
    def add_weighted(
        self,
        layer: LayerT,
        activations: ActivationsT,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        """Adds sum_i weights[i] * gradient_i to ``sums``, in place.

        Args:
            layer: The layer.
            activations: The result of the rule's ``saved_activations``, ``(B, ...)``.
            backprops: Gradient of the loss with respect to the layer's output, ``(B,
                ...)``.
            weights: Clipping factors, ``(B,)``.
            sums: {name of a trainable parameter: tensor of the parameter's shape}.
        """

    def cost_ratio(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> float:
        """Returns the estimated time of the ghost norm over the time with gradients.

        0 if the ghost norm is always faster.  The estimate must depend on shapes alone,
        never on a value.
        """
        return 0.0

    def multiply_adds(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> MultiplyAdds | None:
        """Returns the cost of both methods; None if the rule has only one method.

        Like ``cost_ratio`` it must depend on shapes alone.
        """
        return None

    def inflation(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> float:
        """Returns the relative lengthening of the norms by float32's error bound.

        It must depend on shapes alone.  Above ``round_off.MAX_INFLATION`` the engine
        instantiates gradients, or passes float64 tensors to the methods.
        """
        return 0.0

    def outer_products(
        self, layer: LayerT, activations: ActivationsT, backprops: Tensor
    ) -> dict[str, OuterProduct] | None:
        """Returns {local name: gradients as sums of outer products}.

        The engine needs them for parameters with several calls, whose norms need cross
        terms.  If the result is None, the engine instantiates gradients instead.
        """
        return None
