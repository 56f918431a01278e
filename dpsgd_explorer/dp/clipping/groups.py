"""Which parameters share one norm and one bound: the clipping styles.

A block is clipped by itself.  The blocks are made once, from the names of the
trainable parameters, so they depend neither on the data nor on what happens to run: a
block whose layers are not called keeps its share of the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import nn

from dpsgd_explorer.dp.engines.base import full_name, unit_of
from dpsgd_explorer.errors import ConfigError

Name = tuple[str, str]
"""(layer, local name) of a parameter."""
Blocks = list[list[Name]]
ClippingStyle = str | Sequence[str] | Sequence[Sequence[str]]
"""A key of CLIPPING_STYLES, the heads of the blocks, or the blocks themselves."""


def all_layers(names: Sequence[Name]) -> Blocks:
    """Return one block: the norm is taken over all parameters together."""
    return [list(names)]


def each_layer(names: Sequence[Name]) -> Blocks:
    """Return a block for each layer."""
    layers = dict.fromkeys(layer for layer, _ in names)
    return [[name for name in names if name[0] == layer] for layer in layers]


def each_parameter(names: Sequence[Name]) -> Blocks:
    """Return a block for each parameter."""
    return [[name] for name in names]


CLIPPING_STYLES: dict[str, Callable[[Sequence[Name]], Blocks]] = {
    "all-layer": all_layers,
    "layer-wise": each_layer,
    "param-wise": each_parameter,
}


class Partition(NamedTuple):
    """The blocks, in the units in which norms are reported.

    Attributes:
        blocks: Names of the layers of each block; of the parameters, if there is a
            layer that a border goes through.
        by_parameter: Whether they are names of parameters.
    """

    blocks: list[list[str]]
    by_parameter: bool


def partition(style: ClippingStyle, module: nn.Module) -> Partition:
    """Return the blocks of a module's trainable parameters.

    Heads and blocks are named by modules, which stand for all inside them, or by
    parameters.  A block goes from its head to the next one in the order of
    ``named_parameters``, whatever the order of execution.

    Raises:
        ConfigError: a name is not there or not trainable, or some parameter is in no
            block or in two.
    """
    names = _trainable_names(module)
    if isinstance(style, str):
        blocks = CLIPPING_STYLES[style](names)
    elif all(isinstance(each, str) for each in style):
        blocks = _from_heads([str(each) for each in style], names)
    else:
        blocks = _explicit([list(each) for each in style], names)
    owners = [layer for block in blocks for layer in {layer for layer, _ in block}]
    by_parameter = len(set(owners)) < len(owners)
    units = [
        list(dict.fromkeys(unit_of(*name, by_parameter)[0] for name in block))
        for block in blocks
    ]
    return Partition(units, by_parameter)


def check_form(style: object) -> None:
    """Raise ConfigError unless this is a style's name or a list of names or lists."""
    known = ", ".join(CLIPPING_STYLES)
    if isinstance(style, str):
        if style in CLIPPING_STYLES:
            return
    elif isinstance(style, Sequence) and style:
        if all(isinstance(each, str) for each in style):
            return
        if all(_is_block(each) for each in style):
            return
    raise ConfigError(
        "clipping_style",
        f"clipping_style must be one of {known}, a list of names of layers that begin "
        f"a block, or a list of lists of names; got {style!r}.",
    )


def _is_block(each: object) -> bool:
    listed = isinstance(each, Sequence) and not isinstance(each, str)
    return listed and bool(each) and all(isinstance(name, str) for name in each)  # type: ignore[attr-defined]


def _trainable_names(module: nn.Module) -> list[Name]:
    names = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            layer, _, local = name.rpartition(".")
            names.append((layer, local))
    return names


def _members(name: str, names: Sequence[Name]) -> list[Name]:
    """Return the parameters that a module's or parameter's name stands for."""
    found = []
    for each in names:
        full = full_name(*each)
        if name in ("", full) or full.startswith(f"{name}."):
            found.append(each)
    if not found:
        _refuse(
            f"must name modules with trainable parameters, or such parameters; got "
            f"{name!r}, and trainable are {_shown(names)}"
        )
    return found


def _from_heads(heads: Sequence[str], names: Sequence[Name]) -> Blocks:
    """Cut the parameters before the first one of each head."""
    starts = [names.index(_members(head, names)[0]) for head in heads]
    if len(set(starts)) < len(starts):
        _refuse(f"must not begin two blocks at one layer; got {', '.join(heads)}")
    starts = sorted(starts)
    if starts and starts[0] > 0:
        left_out = _shown(names[: starts[0]])
        _refuse(
            f"must have a head at or before the first trainable layer: {left_out} "
            "would be in no block. Add its layer as a head"
        )
    ends = [*starts[1:], len(names)]
    return [list(names[a:b]) for a, b in zip(starts, ends, strict=True)]


def _explicit(asked: Sequence[Sequence[str]], names: Sequence[Name]) -> Blocks:
    blocks = [
        list(dict.fromkeys(n for name in block for n in _members(name, names)))
        for block in asked
    ]
    listed = [name for block in blocks for name in block]
    twice = [name for name in dict.fromkeys(listed) if listed.count(name) > 1]
    if twice:
        _refuse(f"must put each parameter into one block; {_shown(twice)} is in two")
    missing = [name for name in names if name not in listed]
    if missing:
        _refuse(f"must cover all trainable parameters; missing: {_shown(missing)}")
    return blocks


def _shown(names: Sequence[Name]) -> str:
    return ", ".join(full_name(*name) for name in names)


def _refuse(rule: str) -> None:
    raise ConfigError("clipping_style", f"clipping_style {rule}.")
