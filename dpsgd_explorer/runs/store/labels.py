"""Labels of a run: the title, and the visitor's name, note and star."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Connection, or_, select, update

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.store.schema import runs

MAX_NAME_LENGTH = 60
# Number of newest runs with a title that are searched for the highest number.
MAX_COMPARED_TITLES = 20
MAX_NOTE_LENGTH = 500


def relabel(connection: Connection, run_id: str, visitor: str, **labels: Any) -> bool:
    """Stores the labels that are not None; returns False if the run does not exist.

    Raises:
        ConfigError: A label is too long, or not printable.
    """
    values = {name: value for name, value in labels.items() if value is not None}
    if "name" in values:
        checked_name("name", values["name"])
    if "note" in values:
        values["note"] = _checked_note(values["note"])
    statement = update(runs).where(
        runs.c.id == run_id, runs.c.visitor == visitor, runs.c.deleted_at.is_(None)
    )
    # Without labels, the statement still tests whether the run exists.
    values = values or {"id": run_id}
    return bool(connection.execute(statement.values(values)).rowcount)


def entitle(connection: Connection, run_id: str, visitor: str, title: str) -> None:
    """Stores the title of a run, with a number if the visitor already has the title.

    The stored title lets a list of runs read only the runs that it displays.
    """
    text = numbered(connection, visitor, title)
    connection.execute(update(runs).where(runs.c.id == run_id).values(title=text))


def numbered(connection: Connection, visitor: str, title: str) -> str:
    """Returns a title, with a number if the visitor already has a run of that title."""
    with_number = runs.c.title.startswith(f"{title} (", autoescape=True)
    alike = (
        select(runs.c.title)
        .where(runs.c.visitor == visitor, or_(runs.c.title == title, with_number))
        .order_by(runs.c.created_at.desc())
        .limit(MAX_COMPARED_TITLES)
    )
    form = re.compile(rf"{re.escape(title)}(?: \((\d+)\))?")
    matches = [form.fullmatch(other) for other in connection.scalars(alike)]
    last = max((int(match[1] or 1) for match in matches if match), default=0)
    return f"{title} ({last + 1})" if last else title


def checked_name(field: str, text: str) -> str:
    """Returns the text if it is a valid name.

    Raises:
        ConfigError: The text is too long or not printable.
    """
    if len(text) > MAX_NAME_LENGTH or not text.isprintable():
        raise ConfigError(
            field,
            f"{field} must have at most {MAX_NAME_LENGTH} printable characters, "
            f"got {text[: 2 * MAX_NAME_LENGTH]!r}.",
        )
    return text


def _checked_note(text: str) -> str:
    """Returns the note, which may have several lines, with Unix line ends."""
    lines = text.replace("\r\n", "\n")
    if len(lines) > MAX_NOTE_LENGTH or not lines.replace("\n", "").isprintable():
        raise ConfigError(
            "note",
            f"note must have at most {MAX_NOTE_LENGTH} printable characters, got "
            f"{len(lines)}: {text[:60]!r}.",
        )
    return lines
