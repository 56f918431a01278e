"""The layers that can be trained with DP-SGD: one rule a file, one table here."""

from __future__ import annotations

from typing import Any

from torch import nn

from dpsgd_explorer.dp.layers.base import LayerRule
from dpsgd_explorer.dp.layers.conv import Conv2dRule
from dpsgd_explorer.dp.layers.embedding import EmbeddingRule
from dpsgd_explorer.dp.layers.group_norm import GroupNormRule
from dpsgd_explorer.dp.layers.layer_norm import LayerNormRule
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.errors import UnsupportedModuleError

RULES: dict[type[nn.Module], LayerRule[Any]] = {
    nn.Linear: LinearRule(),
    nn.Conv2d: Conv2dRule(),
    nn.GroupNorm: GroupNormRule(),
    nn.LayerNorm: LayerNormRule(),
    nn.Embedding: EmbeddingRule(),
}


def rule_for(layer: nn.Module, name: str = "") -> LayerRule[Any]:
    """Return the rule for this exact type, or for the type whose forward it shares.

    Args:
        layer: A module that has trainable parameters of its own.
        name: What to call it in a message, as in ``named_modules``.

    Raises:
        UnsupportedModuleError: no rule computes this layer's gradients.
    """
    label = f"{name or 'the module'} ({type(layer).__name__})"
    rule = RULES.get(type(layer)) or _inherited_rule(layer)
    if rule is None:
        known = ", ".join(sorted(kind.__name__ for kind in RULES))
        raise UnsupportedModuleError(
            f"{label} has trainable parameters but no layer rule; there are rules for "
            f"{known}. Freeze it with requires_grad_(False), replace it, add a "
            'LayerRule, or use engine="microbatch".'
        )
    _check_settings(rule, layer, label)
    return rule


def _inherited_rule(layer: nn.Module) -> LayerRule[Any] | None:
    for kind, rule in RULES.items():
        if isinstance(layer, kind) and all(
            getattr(type(layer), method) is getattr(kind, method)
            for method in rule.forward_methods
        ):
            return rule
    return None


def _check_settings(rule: LayerRule[Any], layer: nn.Module, label: str) -> None:
    reason = rule.refusal(layer)
    for method in rule.forward_methods:
        if method in vars(layer):
            reason = f"its {method} was replaced on the instance"
    for name, parameter in layer.named_parameters(recurse=False):
        if parameter.requires_grad and name not in rule.parameter_names:
            reason = f"the rule does not know its parameter {name!r}"
    if reason:
        raise UnsupportedModuleError(
            f"{label} cannot be trained with per-sample gradients: {reason}. "
            "Change the setting, freeze the layer, or replace it."
        )
