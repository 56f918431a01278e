"""The visitors' own tables: files that they brought, and what their columns hold.

They are in the database, so that every process of a site reads them, on any machine,
and a backup has them.  A row's owner is a hash of the visitor's name, so that the row
does not tell whose it is.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from dpsgd_explorer.errors import ConfigError, ExplorerError
from dpsgd_explorer.experiments.own_csv import Checked, check, header
from dpsgd_explorer.experiments.own_table import Column, OwnTable
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.site.tables import own_tables

MOST_TABLES = 5  # of a visitor
MOST_DRAFTS = 5  # of a visitor: the oldest makes room for a new one
MOST_IN_ALL = 250  # files of up to 2 MB
HOUR = 60 * 60
DAY = 24 * HOUR
DRAFT_DAYS = 1
DRAFT = re.compile(r"[0-9a-f]{64}\Z")
IS_STATED = own_tables.c.stated.is_not(None)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Draft:
    """An uploaded file whose columns are not stated yet."""

    sha256: str
    names: list[str]


class OwnTables:
    """The tables of one visitor.

    Args:
        database: Where they are.
        visitor: Whose they are.
        clock: Gives unix seconds.
    """

    def __init__(
        self, database: Database, visitor: str, clock: Callable[[], float]
    ) -> None:
        self._database, self._clock = database, clock
        self._owner = hashlib.sha256(visitor.encode()).hexdigest()[:32]
        self._mine = own_tables.c.owner == self._owner

    def add(self, content: bytes) -> Draft:
        """Keep an uploaded file; a form that was left takes no table's place.

        Raises:
            ConfigError: it cannot be read, or there are too many tables.
        """
        draft = Draft(hashlib.sha256(content).hexdigest(), header(content))
        with self._database.write() as connection:
            self._check_room(connection)
            self._put(connection, draft.sha256, content)
            newest = (
                select(own_tables.c.name)
                .where(self._mine, ~IS_STATED)
                .order_by(own_tables.c.stored_at.desc())
                .offset(MOST_DRAFTS)
            )
            for name in connection.scalars(newest).all():
                self._delete(connection, own_tables.c.name == name)
        return draft

    def draft(self, sha256: str) -> Draft | None:
        """Return an uploaded file of this hash, if there is one."""
        content = self.content(sha256) if DRAFT.match(sha256) else None
        return None if content is None else Draft(sha256, header(content))

    def state(self, draft: Draft, columns: tuple[Column, ...]) -> Checked:
        """Make a table of an uploaded file and its stated columns.

        Raises:
            ConfigError: a row is not as stated, there are too many tables, or the file
                was deleted meanwhile.
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
            self._put(connection, name, content, stated)
        return checked

    def all(self) -> list[OwnTable]:
        """Return the tables, newest first."""
        newest = own_tables.c.stored_at.desc()
        query = select(own_tables.c.stated).where(self._mine, IS_STATED)
        with self._database.read() as connection:
            found = connection.scalars(query.order_by(newest)).all()
        return [OwnTable.model_validate_json(stated) for stated in found]

    def drafts(self) -> list[Draft]:
        """Return the files whose columns are not stated yet."""
        query = select(own_tables.c.name, own_tables.c.content)
        with self._database.read() as connection:
            found = connection.execute(query.where(self._mine, ~IS_STATED)).all()
        return [Draft(name, header(content)) for name, content in found]

    def get(self, name: str) -> OwnTable | None:
        """Return the table of this name, if there is one."""
        named = own_tables.c.name == name
        query = select(own_tables.c.stated).where(self._mine, named, IS_STATED)
        with self._database.read() as connection:
            stated = connection.scalar(query)
        return None if stated is None else OwnTable.model_validate_json(stated)

    def content(self, name: str) -> bytes | None:
        """Return the file of a table or draft, if there is one."""
        query = select(own_tables.c.content)
        with self._database.read() as connection:
            found: bytes | None = connection.scalar(
                query.where(self._mine, own_tables.c.name == name)
            )
        return found

    def delete(self, name: str) -> bool:
        """Delete a table or a draft; False if there is none."""
        with self._database.write(ends=True) as connection:
            return self._delete(connection, own_tables.c.name == name) > 0

    def delete_all(self) -> None:
        """Delete every table and draft."""
        with self._database.write(ends=True) as connection:
            self._delete(connection, own_tables.c.name.is_not(None))

    def _check_room(self, connection: Connection) -> None:
        query = select(func.count()).select_from(own_tables)
        count = connection.scalar(query.where(self._mine, IS_STATED)) or 0
        if count >= MOST_TABLES:
            raise ConfigError(
                "file",
                f"You already have {count} tables on this site, the maximum is "
                f"{MOST_TABLES}. Delete a table first.",
            )
        if (connection.scalar(query) or 0) >= MOST_IN_ALL:
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
        stated: str | None = None,
    ) -> None:
        values = {"content": content, "stated": stated, "stored_at": self._clock()}
        changed = update(own_tables).where(*self._named(name)).values(values)
        if not connection.execute(changed).rowcount:
            own = {"owner": self._owner, "name": name}
            connection.execute(insert(own_tables).values(own | values))

    def _named(self, name: str) -> tuple[Any, ...]:
        return self._mine, own_tables.c.name == name

    def _delete(self, connection: Connection, which: Any) -> int:
        return connection.execute(delete(own_tables).where(self._mine, which)).rowcount


def delete_old(database: Database, keep_days: float | None, now: float) -> int:
    """Delete old tables, and files whose columns were never stated; return how many.

    Args:
        database: Where they are.
        keep_days: Days to keep tables; None: for ever.
        now: Unix seconds.
    """
    stored_at = own_tables.c.stored_at
    old = and_(~IS_STATED, stored_at < now - DRAFT_DAYS * DAY)
    if keep_days is not None:
        old = or_(old, stored_at < now - keep_days * DAY)
    with database.write(ends=True) as connection:
        return connection.execute(delete(own_tables).where(old)).rowcount


class TableSweep:
    """Deletes old tables and forgotten drafts, once an hour.

    Args:
        database: Where they are.
        keep_days: Days to keep tables; None: for ever.
        clock: Gives unix seconds.
        pause_clock: Gives seconds, for the next hour only.
    """

    def __init__(
        self,
        database: Database,
        keep_days: int | None,
        *,
        clock: Callable[[], float],
        pause_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._keep_days, self._clock = database, keep_days, clock
        self._pause_clock, self._due = pause_clock, pause_clock()

    def tend(self) -> None:
        """Delete what is due; call again and again."""
        if self._pause_clock() < self._due:
            return
        self._due = self._pause_clock() + HOUR
        try:
            delete_old(self._database, self._keep_days, self._clock())
        except ExplorerError as error:
            logger.warning("old tables could not be deleted: %s", error)
