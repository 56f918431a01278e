"""Assigns a rule to every layer with trainable parameters, and a unit to each of them.

A parameter that two layers share (a tied embedding) belongs to the unit of the first
layer in ``named_modules`` order; calls of the other layer add to the same gradient.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from dpsgd_explorer.dp.engines.alone import AloneRewrite
from dpsgd_explorer.dp.engines.base import unit_of
from dpsgd_explorer.dp.engines.layer_calls import (
    GradientTarget,
    ParameterKey,
    TrainedParameters,
)
from dpsgd_explorer.dp.layers import has_forward, hides_parameters, rule_for
from dpsgd_explorer.dp.layers.base import GradientRule, Rule
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
        self._modules = dict(module.named_modules())
        self._by_parameter = by_parameter
        self.layers: dict[str, nn.Module] = {}
        self.rules: dict[str, Rule[Any]] = {}
        self.parameters: Parameters = {}
        # The key is the id, because ``==`` compares the entries of parameters.
        self._keys: dict[int, ParameterKey] = {}
        self._trained: dict[nn.Module, TrainedParameters] = {}
        hidden: list[str] = []
        for name, layer in self._modules.items():
            direct = {
                local: parameter
                for local, parameter in layer.named_parameters(recurse=False)
                if parameter.requires_grad
            }
            if any(p.requires_grad for p in layer.parameters()):
                self._add(name, layer, direct)
                if hides_parameters(layer):
                    hidden.append(name)
        if not self.parameters:
            raise UnsupportedModuleError(
                "the module has no trainable parameters, so there is nothing to train "
                "with DP-SGD. Set requires_grad_(True) on some of them."
            )
        for place in hidden:
            around = [x for x in _around(place) if has_forward(self._modules[x])]
            if around and not any(map(self._is_alone, around)):
                self._set_alone(around[0])
        # A sharded layer has other parameters while it runs, so all are found here.
        for layer in self.layers.values():
            self._trained[layer] = self.trained(layer)
        self._first = dict(self.layers), dict(self.rules)

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

    def run_alone(self, place: str, *, failed: bool) -> bool:
        """Runs one more module alone on every sample; see ``alone``.

        The first choice is the innermost module around a place, under vmap.  The next
        choice is this module one sample after the other, then the module around it.
        The whole model is never chosen, since ``engine="vmap"`` runs it so.  Modules
        with the same type and parameters are run alone too, since they would fail too.

        Args:
            place: Name of the module whose pass failed or whose gradients are wrong.
            failed: If True, the pass failed.

        Returns:
            True if there was such a module.
        """
        around = _around(place)
        alone = [i for i, name in enumerate(around) if self._is_alone(name)]
        for name in around[alone[0] if alone else 0 : -1]:
            rule, one_by_one = self.rules.get(name), False
            if isinstance(rule, AloneRewrite):
                one_by_one = failed
                if rule.one_by_one or not one_by_one:
                    continue
            elif isinstance(rule, GradientRule) or not has_forward(self._modules[name]):
                continue
            for other in self._alike(name):
                self._set_alone(other, one_by_one=one_by_one)
            return True
        return False

    def reset(self) -> bool:
        """Restores the first rules; returns False if no rule had changed."""
        layers, rules = self._first
        has_changed = rules != self.rules
        self.layers, self.rules = dict(layers), dict(rules)
        return has_changed

    def _alike(self, name: str) -> list[str]:
        """Returns the names of the modules with the same type and trained parameters.

        A model of many equal blocks then needs no more attempts than one block.
        """
        kind, trained = type(self._modules[name]), self._trained_inside(name)
        return [
            other
            for other, module in self._modules.items()
            if type(module) is kind
            and self._trained_inside(other) == trained
            and self._is_alone(other) == self._is_alone(name)
            and not any(map(self._is_alone, _around(other)[1:]))
            and other
        ]

    def _trained_inside(self, name: str) -> list[str]:
        named = self._modules[name].named_parameters()
        return [local for local, parameter in named if self.is_trained(parameter)]

    def _is_alone(self, name: str) -> bool:
        return isinstance(self.rules.get(name), AloneRewrite)

    def _set_alone(self, name: str, *, one_by_one: bool = False) -> None:
        for inner in [x for x in self.rules if name in _around(x)]:
            del self.layers[inner], self.rules[inner]
        self.layers[name] = self._modules[name]
        self.rules[name] = AloneRewrite(one_by_one=one_by_one)

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


def _around(name: str) -> list[str]:
    """Returns the names of a module and of the modules around it, innermost first."""
    parts = name.split(".") if name else []
    return [".".join(parts[:end]) for end in range(len(parts), -1, -1)]
