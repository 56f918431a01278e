"""Which layer is covered by which rule, and whose parameters are whose."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from dpsgd_explorer.dp.engines.base import unit_of
from dpsgd_explorer.dp.engines.layer_calls import Name, Target
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.layers.base import Rule
from dpsgd_explorer.dp.layers.rewrite import LayerPart
from dpsgd_explorer.errors import UnsupportedModuleError

Parameters = dict[str, dict[str, nn.Parameter]]


class Coverage:
    """The layers of a module that have trainable parameters of their own.

    Args:
        module: The model.
        by_parameter: Whether each parameter is a unit of its own, instead of a layer.

    Attributes:
        layers: {name: layer}.
        rules: {name: its rule}.
        parameters: {unit: {local name: trainable parameter}}; a shared parameter is
            listed once, under the first layer that has it.

    Raises:
        UnsupportedModuleError: nothing is trainable, or a layer's settings rule it out.
    """

    def __init__(self, module: nn.Module, *, by_parameter: bool = False) -> None:
        self._by_parameter = by_parameter
        self.layers: dict[str, nn.Module] = {}
        self.rules: dict[str, Rule[Any]] = {}
        self.parameters: Parameters = {}
        self._owners: dict[int, Name] = {}
        self._targets: dict[nn.Module, Any] = {}
        for name, layer in module.named_modules():
            own = {
                local: parameter
                for local, parameter in layer.named_parameters(recurse=False)
                if parameter.requires_grad
            }
            if any(p.requires_grad for p in layer.parameters()):
                self._add(name, layer, own)
        if not self.layers:
            raise UnsupportedModuleError(
                "the module has no trainable parameters, so there is nothing to train "
                "with DP-SGD. Set requires_grad_(True) on some of them."
            )

    def _add(self, name: str, layer: nn.Module, own: dict[str, nn.Parameter]) -> None:
        rule = rule_for(layer, name)
        if own or rule.includes_children:
            self.layers[name], self.rules[name] = layer, rule
        for local, parameter in own.items():
            if id(parameter) not in self._owners:
                unit, key = unit_of(name, local, self._by_parameter)
                self._owners[id(parameter)] = unit, key
                self.parameters.setdefault(unit, {})[key] = parameter

    def is_trained(self, parameter: Tensor) -> bool:
        """Whether a parameter is one of those to be trained."""
        return id(parameter) in self._owners

    def own(self, name: str) -> list[nn.Parameter]:
        """Return the trainable parameters that a layer itself has, shared or not."""
        every = self.layers[name].named_parameters(recurse=False)
        return [p for _, p in every if id(p) in self._owners]

    def targets(
        self, name: str, layer: nn.Module
    ) -> tuple[dict[str, Target], dict[str, nn.Parameter]]:
        """Return {local name: whose gradient that is} of a layer, or a part of one."""
        if layer in self._targets:
            targets, parameters = self._targets[layer]
            return targets, parameters
        if isinstance(layer, LayerPart):
            start, stop, own = layer.start, layer.stop, dict(layer.whole)
        else:
            start, stop = 0, None
            own = dict(layer.named_parameters(recurse=False))
        own = {n: p for n, p in own.items() if id(p) in self._owners}
        targets = {n: Target(*self._owners[id(p)], start, stop) for n, p in own.items()}
        if not isinstance(layer, LayerPart):
            self._targets[layer] = targets, own
        return targets, own
