"""The rules of the layers that can be trained with DP-SGD, and their table.

A new layer needs a file with the rule, a line in RULES, and a case in the tests.
:func:`register_rule` adds the rule of a user's layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from dpsgd_explorer.dp.layers.attention import MultiheadAttentionRewrite
from dpsgd_explorer.dp.layers.base import Rule
from dpsgd_explorer.dp.layers.conv_nd import ConvNdRule, ConvTransposeNdRule
from dpsgd_explorer.dp.layers.embedding import EmbeddingRule
from dpsgd_explorer.dp.layers.embedding_bag import EmbeddingBagRule
from dpsgd_explorer.dp.layers.functional import FunctionalRewrite
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.dp.layers.normalization import (
    GroupNormRule,
    InstanceNormRule,
    LayerNormRule,
    PReLURule,
    RMSNormRule,
)
from dpsgd_explorer.dp.layers.recurrent import RecurrentRewrite
from dpsgd_explorer.errors import ConfigError, UnsupportedModuleError

RULES: dict[type[nn.Module], Rule[Any]] = {
    nn.Linear: LinearRule(),
    nn.Conv1d: ConvNdRule(),
    nn.Conv2d: ConvNdRule(),
    nn.Conv3d: ConvNdRule(),
    nn.ConvTranspose1d: ConvTransposeNdRule(),
    nn.ConvTranspose2d: ConvTransposeNdRule(),
    nn.ConvTranspose3d: ConvTransposeNdRule(),
    nn.Embedding: EmbeddingRule(),
    nn.EmbeddingBag: EmbeddingBagRule(),
    nn.LayerNorm: LayerNormRule(),
    nn.RMSNorm: RMSNormRule(),
    nn.GroupNorm: GroupNormRule(),
    nn.InstanceNorm1d: InstanceNormRule(),
    nn.InstanceNorm2d: InstanceNormRule(),
    nn.InstanceNorm3d: InstanceNormRule(),
    nn.PReLU: PReLURule(),
    nn.RNN: RecurrentRewrite(),
    nn.GRU: RecurrentRewrite(),
    nn.LSTM: RecurrentRewrite(),
    nn.MultiheadAttention: MultiheadAttentionRewrite(),
}
#: Rule of a module that the table does not contain.
ANY_MODULE = FunctionalRewrite()


def register_rule(kind: type[nn.Module], rule: Rule[Any]) -> Callable[[], None]:
    """Registers a rule for a type of layer.

    The rule holds for the layers of all engines that are attached afterwards.  A wrong
    rule would break the privacy guarantee, so the engine checks a rule at the first
    pass: the sum of the gradients must equal the gradient of autograd, and the norm of
    a clipped gradient must not exceed the bound.

    Args:
        kind: The class of the layer, a subclass of ``torch.nn.Module``.
        rule: An instance of a subclass of ``LayerRule``.

    Returns:
        A function without arguments that removes the rule.

    Raises:
        ConfigError: ``kind`` is not a class of modules or already has a rule, or
            ``rule`` is not an instance of a rule.

    Source: Goodfellow (2015), arXiv:1510.01799 (gradients from the inputs of layers and
    the gradients of their outputs).

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> class Scale(nn.Module):
        ...     def __init__(self, features):
        ...         super().__init__()
        ...         self.weight = nn.Parameter(torch.ones(features))
        ...
        ...     def forward(self, x):  # (B, d)
        ...         return x * self.weight
        >>> class ScaleRule(dp.LayerRule[Scale]):
        ...     parameter_names = ("weight",)
        ...
        ...     def per_sample_gradients(self, layer, activations, backprops):
        ...         return {"weight": activations * backprops}
        >>> remove = dp.register_rule(Scale, ScaleRule())
        >>> model = nn.Sequential(Scale(3), nn.Linear(3, 1))
        >>> x, y = torch.randn(8, 3), torch.randn(8, 1)
        >>> gradients = dp.per_sample_gradients(model, nn.functional.mse_loss, x, y)
        >>> gradients["0.weight"].shape
        torch.Size([8, 3])
        >>> remove()
    """
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise ConfigError("kind", f"kind must be a class of modules, got {kind!r}.")
    if not isinstance(rule, Rule):
        raise ConfigError(
            "rule",
            "rule must be an instance of a LayerRule, GradientRule or Rewrite, "
            f"got {rule!r}.",
        )
    if kind in RULES:
        raise ConfigError(
            "kind",
            f"kind must have no rule yet, got {kind.__name__}, which has one. "
            "Remove that rule first: call the function that register_rule returned.",
        )
    RULES[kind] = rule

    def remove() -> None:
        RULES.pop(kind, None)

    return remove


def rule_for(layer: nn.Module, name: str = "") -> Rule[Any]:
    """Returns the rule of this exact type, or of the base class with its forward.

    The rule of a module without a rule, or with a forward that was changed on the
    instance, is ``ANY_MODULE``, which differentiates it with ``torch.func``.

    Args:
        layer: A module that contains trainable parameters.
        name: Name of the module in ``named_modules``, for messages.

    Raises:
        UnsupportedModuleError: the layer's settings exclude it.
    """
    rule = RULES.get(type(layer)) or _inherited_rule(layer)
    if rule is None or not _is_covered(rule, layer):
        return ANY_MODULE
    reason = rule.refusal(layer)
    if reason:
        raise UnsupportedModuleError(
            f"{name or 'the module'} ({type(layer).__name__}) cannot be trained with "
            f"per-sample gradients: {reason}. Change the setting or replace the layer."
        )
    return rule


def hides_parameters(layer: nn.Module) -> bool:
    """Returns True if the calls of a module do not show the uses of its parameters.

    The parameters of a container belong to the forward of a module around it.  The
    weight of a layer with ``torch.nn.utils.parametrize`` is computed from others.
    """
    parameters = layer.parameters(recurse=False)
    if not has_forward(layer) and any(p.requires_grad for p in parameters):
        return True
    if not is_parametrized(layer):
        return False
    originals = cast(nn.Module, layer.parametrizations).parameters()
    return any(p.requires_grad for p in originals)


def has_forward(layer: nn.Module) -> bool:
    """Returns False for a container, such as nn.ModuleList."""
    return type(layer).forward is not nn.Module.forward


def _inherited_rule(layer: nn.Module) -> Rule[Any] | None:
    # A subclass that overrides no method of the forward computes an equal function.
    for kind, rule in RULES.items():
        if isinstance(layer, kind) and all(
            getattr(type(layer), method) is getattr(kind, method)
            for method in rule.forward_methods
        ):
            return rule
    return None


def _is_covered(rule: Rule[Any], layer: nn.Module) -> bool:
    """Returns True if the rule covers the layer's forward and parameters."""
    if any(_is_replaced(layer, method) for method in rule.forward_methods):
        return False
    parameters = layer.named_parameters(recurse=False)
    return all(rule.knows(layer, name) for name, p in parameters if p.requires_grad)


def _is_replaced(layer: nn.Module, method: str) -> bool:
    """Returns True if the instance has another method than its type.

    A deep copy has the method of its type.
    """
    if method not in vars(layer):
        return False
    original: Any = getattr(type(layer), method).__get__(layer)
    return bool(vars(layer)[method] != original)
