"""Writes tests/public_interface.txt: the calls that stay compatible.

Run as ``python -m tools.write_public_interface`` after a deliberate change of a public
name, argument or default.  A test compares the file with the code, so that no public
call changes unnoticed.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from enum import EnumType
from pathlib import Path
from typing import Any

from dpsgd_explorer import accounting, audit, dp, regression
from dpsgd_explorer.accounting import plots
from dpsgd_explorer.compat import fastdp, opacus
from dpsgd_explorer.dp import schedules
from dpsgd_explorer.integrations import lightning, transformers

FILE = Path(__file__).parents[1] / "tests" / "public_interface.txt"
MODULES = (
    dp,
    accounting,
    plots,
    audit,
    regression,
    fastdp,
    opacus,
    transformers,
    lightning,
)


def public_names() -> dict[str, Any]:
    """Returns {public path: object}, in alphabetical order."""
    names = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in MODULES
        for name in module.__all__
        if not _is_alias(name, getattr(module, name))
    }
    for shape in schedules.SCHEDULES.values():
        names[f"{dp.__name__}.schedules.{shape.__name__}"] = shape
    for name, value in vars(dp.choices).items():
        if not isinstance(value, types.ModuleType) and hasattr(value, "__args__"):
            names[f"{dp.choices.__name__}.{name}"] = value
    return {
        path: names[path]
        for path in sorted(names)
        if not isinstance(names[path], types.ModuleType)
    }


def _is_alias(name: str, value: Any) -> bool:
    """Returns True for another name of a class, such as Opacus's names of layers."""
    return inspect.isclass(value) and value.__name__ != name


def interface() -> str:
    """Returns the text of the file."""
    paragraphs = ("\n".join(_lines(*item)) for item in public_names().items())
    return "\n\n".join(paragraphs) + "\n"


def _lines(path: str, definition: Any) -> Iterator[str]:
    """Yields the lines of a name: its call or values, and the members of a class."""
    if not inspect.isclass(definition):
        values = tuple(definition) if isinstance(definition, dict) else definition
        yield path + (
            _signature(definition)
            if inspect.isroutine(definition)
            else f" = {values!r}"
        )
        return
    if isinstance(definition, EnumType):
        yield f"{path}({' | '.join(map(repr, definition))})"
    else:
        yield f"{path}{_signature(definition)}"
    for name, member in _members(definition):
        call = "" if isinstance(member, property) else _signature(member)
        yield f"  .{name}{call}"


def _members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yields the public methods and properties that this project defines."""
    for name, member in inspect.getmembers(owner):
        is_call = inspect.isroutine(member) or isinstance(member, property)
        if name.startswith("_") or not is_call:
            continue
        source = inspect.unwrap(getattr(member, "fget", None) or member)
        if str(getattr(source, "__module__", "")).startswith("dpsgd_explorer"):
            yield name, member


def _signature(function: Any) -> str:
    """Returns names, kinds and defaults of the arguments, without their types."""
    signature = inspect.signature(function)
    plain = [
        parameter.replace(annotation=parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    text = str(inspect.Signature(plain))
    return re.sub(r"<(class|function) '?([\w.]+).*?>", r"\2", text)


if __name__ == "__main__":
    FILE.write_text(interface(), encoding="utf-8")
