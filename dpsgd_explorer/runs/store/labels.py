"""Labels of a run: the title, and the visitor's name, note and star."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, or_, select, update

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.store.schema import runs

MAX_NAME_LENGTH = 60
# Number of newest runs with a title that are searched for the highest number.
MAX_COMPARED_TITLES = 20
MAX_NOTE_LENGTH = 500
SEED = "seed"


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


def entitle(
    connection: Connection,
    run_id: str,
    visitor: str,
    title: str,
    config: Mapping[str, Any],
) -> None:
    """Stores the title of a run; see ``distinct_title``.

    The stored title lets a list of runs read only the runs that it displays.
    """
    text = distinct_title(connection, visitor, title, config)
    connection.execute(update(runs).where(runs.c.id == run_id).values(title=text))


def distinct_title(
    connection: Connection, visitor: str, title: str, config: Mapping[str, Any]
) -> str:
    """Returns a title that differs from the titles of the visitor's other runs.

    If runs have this title and all of them have other seeds, the title gets the seed.
    If a run has this title and this seed, the title gets a number.
    """
    seed = config.get(SEED)
    alike = _runs_titled(connection, visitor, title)
    if alike and seed not in [other for _, other in alike]:
        title = with_seed(title, seed)
        alike = _runs_titled(connection, visitor, title)
    last = max((number for number, _ in alike), default=0)
    return f"{title} ({last + 1})" if last else title


def with_seed(title: str, seed: Any) -> str:
    """Returns the title of a run that differs from another run by its seed."""
    return f"{title} · seed {seed}"


def _runs_titled(
    connection: Connection, visitor: str, title: str
) -> list[tuple[int, Any]]:
    """Returns number and seed of the visitor's newest runs with a title."""
    with_number = runs.c.title.startswith(f"{title} (", autoescape=True)
    alike = (
        select(runs.c.title, runs.c.config)
        .where(runs.c.visitor == visitor, or_(runs.c.title == title, with_number))
        .order_by(runs.c.created_at.desc())
        .limit(MAX_COMPARED_TITLES)
    )
    form = re.compile(rf"{re.escape(title)}(?: \((\d+)\))?")
    return [
        (int(match[1] or 1), json.loads(config).get(SEED))
        for other, config in connection.execute(alike).all()
        if (match := form.fullmatch(other))
    ]


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
