"""Writes the catalogue of docs/reference/errors.md from the docstrings of the errors.

Run as ``python -m tools.write_errors_page``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from dpsgd_explorer import errors
from dpsgd_explorer.web.http.errors import STATUS
from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"
SECTION = re.compile(r"^(Remedy|Attributes):\s*", re.MULTILINE)
ATTRIBUTE = re.compile(r"^ *(\w+): (.+(?:\n     +.+)*)", re.MULTILINE)


def classes() -> dict[str, type[Warning | Exception]]:
    """Returns {name: class} of all errors and warnings, in the order of the module."""
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value)
        and issubclass(value, Exception)
        and value.__module__ == errors.__name__
    }


def parts() -> dict[str, str]:
    """Returns an entry for each class, by the name of the class."""
    return {
        name: "\n\n".join(_paragraphs(name, kind)) for name, kind in classes().items()
    }


def _paragraphs(name: str, kind: type[Warning | Exception]) -> Iterator[str]:
    text = inspect.cleandoc(kind.__doc__ or "").replace("``", "`")
    cause, *sections = SECTION.split(text)
    named = dict(zip(sections[::2], sections[1::2], strict=True))
    yield f"### {name}"
    yield f"Base classes: {', '.join(f'`{base.__name__}`' for base in kind.__bases__)}."
    yield cause.strip()
    yield f"**Remedy.** {named['Remedy'].strip()}"
    attributes = ATTRIBUTE.findall(named.get("Attributes", ""))
    if attributes:
        yield "\n".join(f"- `{own}`: {_joined(does)}" for own, does in attributes)
    if issubclass(kind, errors.ExplorerError) and kind in STATUS:
        status, code = STATUS[kind]
        yield f"HTTP status {status}, code `{code}`."


def _joined(text: str) -> str:
    return re.sub(r"\s+", " ", text)


if __name__ == "__main__":
    write(PAGE, parts())
