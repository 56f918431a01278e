"""Assigns a rule to every layer with trainable parameters, and a unit to each of them.

A parameter that two layers share (a tied embedding) belongs to the unit of the first
layer in ``named_modules`` order; calls of the other layer add to the same gradient.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from dpsgd_explorer.dp.engines.base import unit_of
from dpsgd_explorer.dp.engines.layer_calls import (
    GradientTarget,
    ParameterKey,
    TrainedParameters,
)
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.layers.base import Rule
from dpsgd_explorer.dp.layers.rewrite import LayerPart
from dpsgd_explorer.errors import UnsupportedModuleError

Parameters = dict[str, dict[str, nn.Parameter]]


class Coverage:
    """The layers of a module that have trainable parameters of their own.

    Args:
        module: The model.
        by_parameter: If True, every parameter is a unit; otherwise every layer is.

    Attributes:
        layers: {name: layer}.
        rules: {name: the layer's rule}.
        parameters: {unit: {local name: trainable parameter}}, each parameter once.

    Raises:
        UnsupportedModuleError: no parameter is trainable, or the settings of a layer
            are unsupported.
    """

    def __init__(self, module: nn.Module, *, by_parameter: bool = False) -> None:
        self._by_parameter = by_parameter
        self.layers: dict[str, nn.Module] = {}
        self.rules: dict[str, Rule[Any]] = {}
        self.parameters: Parameters = {}
        # The key is the id, because ``==`` compares the entries of parameters.
        self._keys: dict[int, ParameterKey] = {}
        self._trained: dict[nn.Module, TrainedParameters] = {}
        for name, layer in module.named_modules():
            direct = {
                local: parameter
                for local, parameter in layer.named_parameters(recurse=False)
                if parameter.requires_grad
            }
            if any(p.requires_grad for p in layer.parameters()):
                self._add(name, layer, direct)
        if not self.layers:
            raise UnsupportedModuleError(
                "the module has no trainable parameters, so there is nothing to train "
                "with DP-SGD. Set requires_grad_(True) on some of them."
            )
        # A sharded layer has other parameters while it runs, so all are found here.
        for layer in self.layers.values():
            self._trained[layer] = self.trained(layer)

    def _add(
        self, name: str, layer: nn.Module, direct: dict[str, nn.Parameter]
    ) -> None:
        rule = rule_for(layer, name)
        if direct or rule.includes_children:
            self.layers[name], self.rules[name] = layer, rule
        for local, parameter in direct.items():
            if id(parameter) not in self._keys:
                unit, key = unit_of(name, local, self._by_parameter)
                self._keys[id(parameter)] = unit, key
                self.parameters.setdefault(unit, {})[key] = parameter

    def is_trained(self, parameter: Tensor) -> bool:
        """Returns True if a parameter was trainable when the engine was created."""
        return id(parameter) in self._keys

    def check_shardable(self) -> None:
        """Raises UnsupportedModuleError if a rule needs values of the parameters.

        A sharded layer has these values only while it runs.
        """
        for name, rule in self.rules.items():
            if rule.reads_parameters:
                kind = type(self.layers[name]).__name__
                raise UnsupportedModuleError(
                    f"{name or 'the module'} ({kind}) cannot be sharded: its "
                    "per-sample gradients need its parameters after its forward pass, "
                    "when they are on other ranks. Leave this model unsharded, or "
                    "freeze the layer."
                )

    def direct_parameters(self, name: str) -> list[str]:
        """Returns the local names of a layer's trained parameters, without children."""
        parameters = self.layers[name].named_parameters(recurse=False)
        return [local for local, p in parameters if id(p) in self._keys]

    def trained(self, layer: nn.Module) -> TrainedParameters:
        """Returns the trained parameters of a layer, or of a part of one."""
        if layer in self._trained:
            return self._trained[layer]
        # A part is not stored, because every pass creates new parts.
        if isinstance(layer, LayerPart):
            start, stop, direct = layer.start, layer.stop, dict(layer.whole)
        else:
            start, stop = 0, None
            direct = dict(layer.named_parameters(recurse=False))
        direct = {n: p for n, p in direct.items() if id(p) in self._keys}
        targets = {
            n: GradientTarget(*self._keys[id(p)], start, stop)
            for n, p in direct.items()
        }
        return TrainedParameters(targets, direct)
