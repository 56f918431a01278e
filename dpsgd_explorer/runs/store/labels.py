"""The labels of a run: its title, and the visitor's name, note and star."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Connection, or_, select, update

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.store.schema import runs

LONGEST_NAME = 60
ALIKE = 20  # newest runs with a title or its numbers: one has the highest number
LONGEST_NOTE = 500


def relabel(connection: Connection, run_id: str, visitor: str, **labels: Any) -> bool:
    """Write the labels that are not None; return whether the visitor has this run.

    Raises:
        ConfigError: a label is too long, or not printable.
    """
    values = {name: value for name, value in labels.items() if value is not None}
    if "name" in values:
        checked_name("name", values["name"])
    if "note" in values:
        values["note"] = _checked_note(values["note"])
    mine = (runs.c.id == run_id, runs.c.visitor == visitor, runs.c.deleted_at.is_(None))
    # Without any label too, one statement says whether there is such a run.
    statement = update(runs).where(*mine).values(values or {"id": run_id})
    return bool(connection.execute(statement).rowcount)


def entitle(connection: Connection, run_id: str, visitor: str, title: str) -> None:
    """Store the title of a run, numbered where the visitor has that title already.

    Stored once, so that a list reads no other runs than those that it shows.
    """
    numbered = runs.c.title.startswith(f"{title} (", autoescape=True)
    alike = (
        select(runs.c.title)
        .where(runs.c.visitor == visitor, or_(runs.c.title == title, numbered))
        .order_by(runs.c.created_at.desc())
        .limit(ALIKE)
    )
    form = re.compile(rf"{re.escape(title)}(?: \((\d+)\))?")
    found = [form.fullmatch(known) for known in connection.scalars(alike)]
    last = max((int(match[1] or 1) for match in found if match), default=0)
    text = f"{title} ({last + 1})" if last else title
    connection.execute(update(runs).where(runs.c.id == run_id).values(title=text))


def checked_name(field: str, text: str) -> str:
    """Return the text if it can be a name: short, in one line, printable.

    Raises:
        ConfigError: it cannot.
    """
    if len(text) > LONGEST_NAME or not text.isprintable():
        raise ConfigError(
            field,
            f"{field} must have at most {LONGEST_NAME} printable characters, "
            f"got {text[: 2 * LONGEST_NAME]!r}.",
        )
    return text


def _checked_note(text: str) -> str:
    """Return the note with one kind of line end; it may have several lines."""
    lines = text.replace("\r\n", "\n")
    if len(lines) > LONGEST_NOTE or not lines.replace("\n", "").isprintable():
        raise ConfigError(
            "note",
            f"note must have at most {LONGEST_NOTE} printable characters, got "
            f"{len(lines)}: {text[:60]!r}.",
        )
    return lines
