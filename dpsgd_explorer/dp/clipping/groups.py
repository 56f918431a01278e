"""Clipping styles: which parameters share one norm and one bound.

Each clipping group is clipped separately.  The groups are computed once, from the names
of the trainable parameters, so they depend neither on the data nor on the layers that
run: a group whose layers are not called keeps its share of the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import nn

from dpsgd_explorer.dp.engines.base import full_name, unit_of
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import suggestion

#: (layer, local name) of a parameter.
ParameterName = tuple[str, str]
NameGroups = list[list[ParameterName]]
#: A key of CLIPPING_STYLES, the heads of the groups, or the groups themselves.
ClippingStyle = str | Sequence[str] | Sequence[Sequence[str]]


def all_layers(names: Sequence[ParameterName]) -> NameGroups:
    """Return one group: the norm is over all parameters together."""
    return [list(names)]


def each_layer(names: Sequence[ParameterName]) -> NameGroups:
    """Return a group per layer."""
    layers = dict.fromkeys(layer for layer, _ in names)
    return [[name for name in names if name[0] == layer] for layer in layers]


def each_parameter(names: Sequence[ParameterName]) -> NameGroups:
    """Return a group per parameter."""
    return [[name] for name in names]


CLIPPING_STYLES: dict[str, Callable[[Sequence[ParameterName]], NameGroups]] = {
    "all-layer": all_layers,
    "layer-wise": each_layer,
    "param-wise": each_parameter,
}


class ClippingGroups(NamedTuple):
    """The clipping groups of a module, in the units in which norms are reported.

    Attributes:
        groups: Names of the layers of each group; names of its parameters, if one layer
            is in two groups.
        by_parameter: Whether they are names of parameters.
    """

    groups: list[list[str]]
    by_parameter: bool


def clipping_groups(style: ClippingStyle, module: nn.Module) -> ClippingGroups:
    """Return the clipping groups of a module's trainable parameters.

    Heads and groups are named by parameters, or by modules, which stand for all
    parameters inside them.  A group goes from its head to the next one in the order of
    ``named_parameters``, whatever the order of execution.

    Raises:
        ConfigError: a name does not exist or is not trainable, or a parameter is in no
            group or in two.
    """
    names = _trainable_names(module)
    if isinstance(style, str):
        groups = CLIPPING_STYLES[style](names)
    elif all(isinstance(entry, str) for entry in style):
        groups = _from_heads([str(head) for head in style], names)
    else:
        groups = _explicit([list(group) for group in style], names)
    layers = [layer for group in groups for layer in {layer for layer, _ in group}]
    by_parameter = len(set(layers)) < len(layers)
    units = [
        list(dict.fromkeys(unit_of(*name, by_parameter)[0] for name in group))
        for group in groups
    ]
    return ClippingGroups(units, by_parameter)


def check_form(style: object) -> None:
    """Raise ConfigError unless this is a style's name or a list of names or lists."""
    known = ", ".join(CLIPPING_STYLES)
    if isinstance(style, str):
        if style in CLIPPING_STYLES:
            return
    elif isinstance(style, Sequence) and style:
        if all(isinstance(entry, str) for entry in style):
            return
        if all(_is_group(entry) for entry in style):
            return
    raise ConfigError(
        "clipping_style",
        f"clipping_style must be one of {known}, a list with the name of the first "
        "layer of each group, or a list of lists of names, got "
        f"{style!r}.{suggestion(style, CLIPPING_STYLES)}",
    )


def _is_group(entry: object) -> bool:
    listed = isinstance(entry, Sequence) and not isinstance(entry, str)
    return listed and bool(entry) and all(isinstance(name, str) for name in entry)  # type: ignore[attr-defined]


def _trainable_names(module: nn.Module) -> list[ParameterName]:
    names = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            layer, _, local = name.rpartition(".")
            names.append((layer, local))
    return names


def _members(prefix: str, names: Sequence[ParameterName]) -> list[ParameterName]:
    """Return the parameters inside the module, or the parameter, of this name."""
    members = []
    for name in names:
        full = full_name(*name)
        if prefix in ("", full) or full.startswith(f"{prefix}."):
            members.append(name)
    if not members:
        _refuse(
            "must name trainable parameters or modules with such parameters, got "
            f"{prefix!r}. Trainable are {_listed(names)}"
        )
    return members


def _from_heads(heads: Sequence[str], names: Sequence[ParameterName]) -> NameGroups:
    """Split the parameters before the first one of each head."""
    starts = [names.index(_members(head, names)[0]) for head in heads]
    if len(set(starts)) < len(starts):
        _refuse(f"must not start two groups at the same layer, got {', '.join(heads)}")
    starts = sorted(starts)
    if starts and starts[0] > 0:
        _refuse(
            "must start a group at or before the first trainable layer: "
            f"{_listed(names[: starts[0]])} would be in no group. Add that layer to "
            "the list"
        )
    ends = [*starts[1:], len(names)]
    return [list(names[a:b]) for a, b in zip(starts, ends, strict=True)]


def _explicit(
    style: Sequence[Sequence[str]], names: Sequence[ParameterName]
) -> NameGroups:
    groups = [
        list(dict.fromkeys(name for entry in group for name in _members(entry, names)))
        for group in style
    ]
    members = [name for group in groups for name in group]
    twice = [name for name in dict.fromkeys(members) if members.count(name) > 1]
    if twice:
        _refuse(
            f"must put each parameter into exactly one group; {_listed(twice)} is in "
            "two groups"
        )
    missing = [name for name in names if name not in members]
    if missing:
        _refuse(f"must cover all trainable parameters; missing: {_listed(missing)}")
    return groups


def _listed(names: Sequence[ParameterName]) -> str:
    return ", ".join(full_name(*name) for name in names)


def _refuse(rule: str) -> None:
    raise ConfigError("clipping_style", f"clipping_style {rule}.")
