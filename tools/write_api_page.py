"""Write the entries of docs/reference/api.md, the public names, from their docstrings.

Run as ``python -m tools.write_api_page``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import EnumType
from pathlib import Path
from types import ModuleType
from typing import Any

from dpsgd_explorer import accounting, dp, regression
from dpsgd_explorer.dp import schedules
from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"
SECTION = re.compile(
    r"^(Args|Attributes|Returns|Yields|Raises|Source|Shapes?):\s*(.*)$"
)
ITEM = re.compile(r"^([\w*`\"., ]+?): (.*)$")
LISTED = ("Args", "Attributes", "Raises")


def chapters() -> dict[str, dict[str, Any]]:
    """Return {heading: {public path: object}} in the order of the page."""
    shapes = [each.__name__ for each in schedules.SCHEDULES.values()]
    bound, averages = ["AdaptiveClipping"], ["views", "ParameterAverage"]
    rules = ["register_rule", "LayerRule"]
    elsewhere = {*bound, *averages, *rules, "schedules"}
    core = [name for name in dp.__all__ if name not in elsewhere]
    return {
        "Training with DP-SGD": _objects(dp, core),
        "Noise and bounds over the steps": (
            _objects(schedules, shapes, "dpsgd_explorer.dp.schedules")
            | _objects(dp, bound)
        ),
        "Views and averages": _objects(dp, averages),
        "A rule for a layer": _objects(dp, rules),
        "Accounting": _objects(accounting, accounting.__all__),
        "Linear regression": _objects(regression, regression.__all__),
    }


def parts() -> dict[str, str]:
    """Return the entries of each chapter."""
    return {
        title: "\n".join(
            line
            for path, thing in objects.items()
            if callable(thing)
            for line in _entry(path, thing)
        )
        for title, objects in chapters().items()
    }


def _objects(module: ModuleType, names: list[str], path: str = "") -> dict[str, Any]:
    """Return {public path: object} of some names of a module."""
    return {
        f"{path or module.__name__}.{name}": getattr(module, name) for name in names
    }


def _entry(path: str, thing: Any) -> Iterator[str]:
    module, _, name = path.rpartition(".")
    yield f"### {name}\n"
    yield f"*{module}*\n"
    yield f"```py\n{_signature(name, thing)}\n```\n"
    yield _documentation(inspect.getdoc(thing) or "")
    if inspect.isclass(thing):
        for own, method in _methods(thing):
            yield f"#### {name}.{own}\n"
            if callable(method):
                yield f"```py\n{_signature(own, method)}\n```\n"
            yield _documentation(inspect.getdoc(method) or "")


def _methods(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that the project itself documents."""
    for own, member in inspect.getmembers(thing):
        is_ours = inspect.isroutine(member) or isinstance(member, property)
        if own.startswith("_") or not is_ours or not inspect.getdoc(member):
            continue
        source = inspect.unwrap(getattr(member, "fget", None) or member)
        if str(getattr(source, "__module__", "")).startswith("dpsgd_explorer"):
            yield own, member


def _signature(name: str, thing: Any) -> str:
    """Return a call as it is written, one argument a line if it is long."""
    if isinstance(thing, EnumType):
        return f"{name}({' | '.join(map(repr, thing))})"
    signature = inspect.signature(thing)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    shown, keyword_only = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            shown.append("*")
        plain = parameter.replace(annotation=parameter.empty)
        shown.append(re.sub(r"<(class|function) '?([\w.]+).*>", r"\2", str(plain)))
    line = f"{name}({', '.join(shown)})"
    if len(line) <= 88:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + ")"


def _documentation(text: str) -> str:
    """Return a docstring as Markdown: its sections as lists."""
    blocks, section = [], ""
    for line in text.splitlines():
        found = SECTION.match(line)
        if found:
            section = found[1]
            blocks.append(f"\n**{section}** {found[2]}".rstrip() + "\n")
        elif section and line.startswith("    "):
            blocks.append(_line(section, line.removeprefix("    ")))
        else:
            section = section if not line else ""
            blocks.append(line)
    marked = re.sub(r"``(.+?)``", r"`\1`", "\n".join(blocks))
    plain = re.sub(r":\w+:`(.+?)`", r"`\1`", marked).strip()
    return re.sub(r"\n{3,}", "\n\n", plain) + "\n"


def _line(section: str, line: str) -> str:
    """Return one line of a section: an item of a list where it begins one."""
    item = ITEM.match(line)
    if section in LISTED and item and not line.startswith(" "):
        return f"- `{item[1]}`: {item[2]}"
    return f"  {line.strip()}" if section in LISTED else line


if __name__ == "__main__":
    write(PAGE, parts())
