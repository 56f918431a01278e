"""Visitors' own tables: uploaded files and the descriptions of their columns.

The tables are in the database, so that every process of a site can read them, on any
machine, and a backup contains them.  The owner of a row is a hash of the visitor's
name, so that the row alone does not identify the visitor.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.own_csv import Checked, check, header
from dpsgd_explorer.experiments.own_table import Column, OwnTable
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.site.tables import own_tables

MAX_TABLES = 5  # tables per visitor
MAX_DRAFTS = 5  # drafts per visitor; a new draft replaces the oldest
MAX_SITE_TABLES = 250  # tables and drafts on the site, files of up to 2 MB
LONGEST_TITLE = 80  # characters, as many as the database stores
DAY = 24 * 60 * 60
DRAFT_DAYS = 1
DRAFT = re.compile(r"[0-9a-f]{64}\Z")
IS_STATED = own_tables.c.stated.is_not(None)


@dataclass(frozen=True)
class Draft:
    """An uploaded file whose columns are not stated yet.

    Attributes:
        sha256: Hash of the file.
        names: Names of its columns.
        title: Name of the file on the visitor's machine, "" if unknown.
    """

    sha256: str
    names: list[str]
    title: str = ""


class OwnTables:
    """Tables of one visitor.

    Args:
        database: Database with the tables.
        visitor: Owner of the tables.
        clock: Returns unix seconds.
    """

    def __init__(
        self, database: Database, visitor: str, clock: Callable[[], float]
    ) -> None:
        self._database, self._clock = database, clock
        self._owner = hashlib.sha256(visitor.encode()).hexdigest()[:32]
        self._is_owned = own_tables.c.owner == self._owner

    def add(self, content: bytes, title: str = "") -> Draft:
        """Stores an uploaded file as a draft; drafts do not count as tables.

        Args:
            content: The file.
            title: Name of the file, shown to its visitor.

        Raises:
            ConfigError: The file cannot be read, or there are too many tables.
        """
        last = re.split(r"[/\\]", title)[-1]
        title = "".join(filter(str.isprintable, last)).strip()[:LONGEST_TITLE]
        draft = Draft(hashlib.sha256(content).hexdigest(), header(content), title)
        with self._database.write() as connection:
            self._check_room(connection)
            self._put(connection, draft.sha256, content, title)
            newest = (
                select(own_tables.c.name)
                .where(self._is_owned, ~IS_STATED)
                .order_by(own_tables.c.stored_at.desc())
                .offset(MAX_DRAFTS)
            )
            for name in connection.scalars(newest).all():
                self._delete(connection, own_tables.c.name == name)
        return draft

    def draft(self, sha256: str) -> Draft | None:
        """Returns the uploaded file with this hash; None if it does not exist."""
        if not DRAFT.match(sha256):
            return None
        query = select(own_tables.c.content, own_tables.c.title)
        with self._database.read() as connection:
            row = connection.execute(query.where(*self._named(sha256))).first()
        return None if row is None else Draft(sha256, header(row[0]), row[1])

    def state(self, draft: Draft, columns: tuple[Column, ...]) -> Checked:
        """Creates a table from an uploaded file and the description of its columns.

        Raises:
            ConfigError: A row contradicts the description, there are too many tables,
                or the file was deleted meanwhile.
        """
        content = self.content(draft.sha256)
        if content is None:
            raise ConfigError(
                "file", "The file is no longer on this site. Upload it again."
            )
        checked = check(content, columns)
        name, stated = checked.table.name, checked.table.model_dump_json()
        with self._database.write() as connection:
            self._delete(connection, own_tables.c.name == draft.sha256)
            if not self._has(connection, name):
                self._check_room(connection)
            self._put(connection, name, content, draft.title, stated)
        return checked

    def all(self) -> list[OwnTable]:
        """Returns the tables, newest first."""
        newest = own_tables.c.stored_at.desc()
        query = select(own_tables.c.stated).where(self._is_owned, IS_STATED)
        with self._database.read() as connection:
            texts = connection.scalars(query.order_by(newest)).all()
        return [OwnTable.model_validate_json(text) for text in texts]

    def titles(self) -> dict[str, str]:
        """Returns the names of the files, by the name of their table."""
        query = select(own_tables.c.name, own_tables.c.title)
        with self._database.read() as connection:
            rows = connection.execute(query.where(self._is_owned, IS_STATED)).all()
        return {row.name: row.title for row in rows}

    def drafts(self) -> list[Draft]:
        """Returns the files without a description of their columns."""
        query = select(own_tables.c.name, own_tables.c.content, own_tables.c.title)
        with self._database.read() as connection:
            rows = connection.execute(query.where(self._is_owned, ~IS_STATED)).all()
        return [Draft(name, header(content), title) for name, content, title in rows]

    def get(self, name: str) -> OwnTable | None:
        """Returns the table with this name; None if it does not exist."""
        named = own_tables.c.name == name
        query = select(own_tables.c.stated).where(self._is_owned, named, IS_STATED)
        with self._database.read() as connection:
            stated = connection.scalar(query)
        return None if stated is None else OwnTable.model_validate_json(stated)

    def content(self, name: str) -> bytes | None:
        """Returns the file of a table or draft; None if it does not exist."""
        query = select(own_tables.c.content).where(*self._named(name))
        with self._database.read() as connection:
            content: bytes | None = connection.scalar(query)
        return content

    def delete(self, name: str) -> bool:
        """Deletes a table or a draft; returns False if it does not exist."""
        with self._database.write(ends=True) as connection:
            return self._delete(connection, own_tables.c.name == name) > 0

    def delete_all(self) -> None:
        """Deletes every table and draft of the visitor."""
        with self._database.write(ends=True) as connection:
            self._delete(connection, own_tables.c.name.is_not(None))

    def _check_room(self, connection: Connection) -> None:
        query = select(func.count()).select_from(own_tables)
        count = connection.scalar(query.where(self._is_owned, IS_STATED)) or 0
        if count >= MAX_TABLES:
            raise ConfigError(
                "file",
                f"You already have {count} tables on this site, the maximum is "
                f"{MAX_TABLES}. Delete a table first.",
            )
        if (connection.scalar(query) or 0) >= MAX_SITE_TABLES:
            raise ConfigError(
                "file",
                "This site already stores the maximum number of tables. Try again "
                "tomorrow.",
            )

    def _has(self, connection: Connection, name: str) -> bool:
        query = select(own_tables.c.name)
        return connection.scalar(query.where(*self._named(name))) is not None

    def _put(
        self,
        connection: Connection,
        name: str,
        content: bytes,
        title: str,
        stated: str | None = None,
    ) -> None:
        values = {
            "content": content,
            "title": title,
            "stated": stated,
            "stored_at": self._clock(),
        }
        changed = update(own_tables).where(*self._named(name)).values(values)
        if not connection.execute(changed).rowcount:
            key = {"owner": self._owner, "name": name}
            connection.execute(insert(own_tables).values(key | values))

    def _named(self, name: str) -> tuple[Any, ...]:
        return self._is_owned, own_tables.c.name == name

    def _delete(self, connection: Connection, which: Any) -> int:
        return connection.execute(
            delete(own_tables).where(self._is_owned, which)
        ).rowcount


def delete_old(database: Database, keep_days: float | None, now: float) -> int:
    """Deletes old tables and old drafts.

    Args:
        database: Database with the tables.
        keep_days: Days to keep tables; None keeps them forever.
        now: Unix seconds.

    Returns:
        Number of deleted rows.
    """
    stored_at = own_tables.c.stored_at
    old = and_(~IS_STATED, stored_at < now - DRAFT_DAYS * DAY)
    if keep_days is not None:
        old = or_(old, stored_at < now - keep_days * DAY)
    with database.write(ends=True) as connection:
        return connection.execute(delete(own_tables).where(old)).rowcount
