"""Generated parts of pages, between the markers ``<!-- x -->`` and ``<!-- /x -->``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Cell = str | Callable[[dict[str, Any]], str]
"""A format string with the fields of a record, or a function of a record."""


def replaced(text: str, name: str, content: str) -> str:
    """Return the text with new content between the markers of a name.

    Raises:
        ValueError: the text has no such markers.
    """
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    head, middle, rest = text.partition(start)
    _, closing, tail = rest.partition(end)
    if not (middle and closing):
        raise ValueError(f"the page must hold {start} and {end}; put them in.")
    return f"{head}{start}\n{content}\n{end}{tail}"


def updated(page: Path, parts: Mapping[str, str]) -> str:
    """Return a page's text with new parts, {name: content}."""
    text = page.read_text(encoding="utf-8")
    for name, content in parts.items():
        text = replaced(text, name, content.strip())
    return text


def write(page: Path, parts: Mapping[str, str]) -> None:
    """Replace parts of a page, {name: content}."""
    page.write_text(updated(page, parts), encoding="utf-8")


def put(page: Path, name: str, content: str) -> None:
    """Write content between a page's markers of a name."""
    write(page, {name: content})


def lines_between(page: Path, name: str) -> list[str]:
    """Return the lines between a page's markers of a name."""
    text = page.read_text(encoding="utf-8")
    part = re.search(f"<!-- {name} -->(.*?)<!-- /{name} -->", text, re.DOTALL)
    return part[1].strip().splitlines() if part else []


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a Markdown table."""
    titles = list(header)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def record_table(records: Iterable[dict[str, Any]], *columns: tuple[str, Cell]) -> str:
    """Returns a Markdown table with a row per record.

    Args:
        records: The records.
        columns: Title and cell of each column.
    """
    rows = (
        [
            cell.format_map(record) if isinstance(cell, str) else cell(record)
            for _, cell in columns
        ]
        for record in records
    )
    return markdown_table([title for title, _ in columns], rows)
