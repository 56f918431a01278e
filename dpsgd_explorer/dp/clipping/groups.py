"""Clipping styles: the groups of parameters that share one norm and one bound.

Each clipping group is clipped separately.  The groups are computed once, from the names
of the trainable parameters.  They depend neither on the data nor on the layers that
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
#: A key of CLIPPING_STYLES, names of the first layers of the groups, or lists of the
#: names in each group.
ClippingStyle = str | Sequence[str] | Sequence[Sequence[str]]


def all_layers(names: Sequence[ParameterName]) -> NameGroups:
    """Returns one group of all parameters."""
    return [list(names)]


def each_layer(names: Sequence[ParameterName]) -> NameGroups:
    """Returns one group per layer."""
    layers = dict.fromkeys(layer for layer, _ in names)
    return [[name for name in names if name[0] == layer] for layer in layers]


def each_parameter(names: Sequence[ParameterName]) -> NameGroups:
    """Returns one group per parameter."""
    return [[name] for name in names]


CLIPPING_STYLES: dict[str, Callable[[Sequence[ParameterName]], NameGroups]] = {
    "all-layer": all_layers,
    "layer-wise": each_layer,
    "param-wise": each_parameter,
}


class ClippingGroups(NamedTuple):
    """The clipping groups of a module, by the names for which norms are computed.

    Attributes:
        groups: Names of the layers of each group; names of parameters if the parameters
            of some layer are in different groups.
        by_parameter: True if ``groups`` contains names of parameters.
    """

    groups: list[list[str]]
    by_parameter: bool


def clipping_groups(style: ClippingStyle, module: nn.Module) -> ClippingGroups:
    """Returns the clipping groups of a module's trainable parameters.

    A name in ``style`` is the name of a parameter, or of a module for all parameters
    inside.  A list of names contains the first layer of each group: a group ends before
    the next group's first layer, in the order of ``named_parameters``.  A list of lists
    contains all names of each group.

    Raises:
        ConfigError: a name does not exist or is not trainable, or a parameter is in no
            group or in two.
    """
    names = _trainable_names(module)
    if isinstance(style, str):
        groups = CLIPPING_STYLES[style](names)
    elif all(isinstance(entry, str) for entry in style):
        groups = _from_first_layers([str(entry) for entry in style], names)
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
    """Checks the form of a style, without a module.

    Raises:
        ConfigError: the style is neither a key of CLIPPING_STYLES, nor a list of names,
            nor a list of lists of names.
    """
    style_names = ", ".join(CLIPPING_STYLES)
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
        f"clipping_style must be one of {style_names}, a list with the name of the "
        "first layer of each group, or a list of lists of names, got "
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
    """Returns the parameter with this name, or the parameters in the module with it."""
    members = []
    for name in names:
        full = full_name(*name)
        if prefix in ("", full) or full.startswith(f"{prefix}."):
            members.append(name)
    if not members:
        _reject(
            "must name trainable parameters or modules with such parameters, got "
            f"{prefix!r}. Trainable are {_listed(names)}"
        )
    return members


def _from_first_layers(
    first_layers: Sequence[str], names: Sequence[ParameterName]
) -> NameGroups:
    """Returns groups that start at the given layers, or parameters."""
    starts = [names.index(_members(layer, names)[0]) for layer in first_layers]
    if len(set(starts)) < len(starts):
        listed = ", ".join(first_layers)
        _reject(f"must not start two groups at the same layer, got {listed}")
    starts = sorted(starts)
    if starts and starts[0] > 0:
        _reject(
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
        _reject(
            f"must put each parameter into exactly one group; {_listed(twice)} is in "
            "two groups"
        )
    missing = [name for name in names if name not in members]
    if missing:
        _reject(f"must cover all trainable parameters; missing: {_listed(missing)}")
    return groups


def _listed(names: Sequence[ParameterName]) -> str:
    return ", ".join(full_name(*name) for name in names)


def _reject(rule: str) -> None:
    raise ConfigError("clipping_style", f"clipping_style {rule}.")
