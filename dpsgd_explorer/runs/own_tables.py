"""The visitors' own tables: files in the instance folder, one folder per visitor.

| file | holds |
|---|---|
| ``<sha256>.draft`` | an uploaded file whose columns are not stated yet |
| ``<name>.csv`` | the file of a table |
| ``<name>.json`` | its schema |

Only our user on the machine may read them.  A folder's name is a hash of the visitor's,
so that the folder does not tell whose it is.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dpsgd_explorer.atomic_file import write_whole
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.own_csv import Checked, check, header
from dpsgd_explorer.experiments.own_table import Column, OwnTable, is_own
from dpsgd_explorer.runs.files.private_file import OWNER_ONLY

MOST_TABLES = 5  # of a visitor
MOST_DRAFTS = 5  # of a visitor: the oldest makes room for a new one
MOST_IN_ALL = 500
HOUR = 60 * 60
DAY = 24 * HOUR
DRAFT_DAYS = 1
NAME = re.compile(r"own-[0-9a-f]{24}\Z")
DRAFT = re.compile(r"[0-9a-f]{64}\Z")
FOLDER = "tables"


@dataclass(frozen=True)
class Draft:
    """An uploaded file whose columns are not stated yet."""

    sha256: str
    names: list[str]


class OwnTables:
    """The tables of one visitor.

    Args:
        instance_dir: Folder of the installation.
        visitor: Whose they are.
    """

    def __init__(self, instance_dir: Path, visitor: str) -> None:
        self.folder = folder_of(instance_dir, visitor)

    def add(self, content: bytes) -> Draft:
        """Keep an uploaded file; a form that was left takes no table's place.

        Raises:
            ConfigError: it cannot be read, or there are too many tables.
        """
        names = header(content)
        self._check_room()
        sha256 = hashlib.sha256(content).hexdigest()
        self._write(f"{sha256}.draft", content)
        drafts = sorted(self.folder.glob("*.draft"), key=_modified_at)
        for place in drafts[:-MOST_DRAFTS]:
            place.unlink(missing_ok=True)
        return Draft(sha256, names)

    def draft(self, sha256: str) -> Draft | None:
        """Return an uploaded file of this hash, if there is one."""
        if not DRAFT.match(sha256):
            return None
        try:
            content = (self.folder / f"{sha256}.draft").read_bytes()
        except OSError:
            return None
        return Draft(sha256, header(content))

    def state(self, draft: Draft, columns: tuple[Column, ...]) -> Checked:
        """Make a table of an uploaded file and its stated columns.

        Raises:
            ConfigError: a row is not as stated, or there are too many tables.
        """
        place = self.folder / f"{draft.sha256}.draft"
        content = place.read_bytes()
        checked = check(content, columns)
        name = checked.table.name
        if self.get(name) is None:
            self._check_room()
        self._write(f"{name}.csv", content)
        self._write(f"{name}.json", checked.table.model_dump_json().encode())
        place.unlink(missing_ok=True)
        return checked

    def all(self) -> list[OwnTable]:
        """Return the tables, newest first."""
        schemas = sorted(self.folder.glob("own-*.json"), key=_modified_at, reverse=True)
        found = (self.get(place.stem) for place in schemas)
        return [table for table in found if table is not None]

    def drafts(self) -> list[Draft]:
        """Return the files whose columns are not stated yet."""
        found = (self.draft(place.stem) for place in self.folder.glob("*.draft"))
        return [draft for draft in found if draft is not None]

    def get(self, name: str) -> OwnTable | None:
        """Return the table of this name, if there is one."""
        if not NAME.match(name):
            return None
        try:
            text = (self.folder / f"{name}.json").read_bytes()
        except OSError:
            return None
        return OwnTable.model_validate_json(text)

    def delete(self, name: str) -> bool:
        """Delete a table or a draft; False if there is none."""
        endings = {True: (".json", ".csv"), False: (".draft",)}[is_own(name)]
        if not (NAME.match(name) or DRAFT.match(name)):
            return False
        places = [self.folder / f"{name}{ending}" for ending in endings]
        found = any(place.exists() for place in places)
        for place in places:
            place.unlink(missing_ok=True)
        return found

    def delete_all(self) -> None:
        """Delete every table and draft."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _check_room(self) -> None:
        count = len(list(self.folder.glob("own-*.json")))
        if count >= MOST_TABLES:
            raise ConfigError(
                "file",
                f"You have {count} tables here; {MOST_TABLES} is the most. Delete one "
                "first.",
            )
        if len(list(self.folder.parent.glob("*/*.*"))) >= MOST_IN_ALL:
            raise ConfigError("file", "This site keeps no more tables. Try tomorrow.")

    def _write(self, name: str, content: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.folder / name, content, mode=OWNER_ONLY)


def folder_of(instance_dir: Path, visitor: str) -> Path:
    """Return the folder of a visitor's tables."""
    digest = hashlib.sha256(visitor.encode()).hexdigest()
    return instance_dir / FOLDER / digest[:32]


def delete_old(instance_dir: Path, keep_days: float | None, now: float) -> int:
    """Delete old tables, and files whose columns were never stated; return how many."""
    deleted = 0
    for place in (instance_dir / FOLDER).glob("*/*"):
        days = DRAFT_DAYS if place.suffix not in (".json", ".csv") else keep_days
        if days is not None and _modified_at(place) < now - days * DAY:
            place.unlink(missing_ok=True)
            deleted += 1
    return deleted


class TableSweep:
    """Deletes old tables and forgotten drafts, once an hour.

    Args:
        instance_dir: Folder of the installation.
        keep_days: Days to keep tables; None: for ever.
        clock: Gives seconds, for the next hour only.
    """

    def __init__(
        self,
        instance_dir: Path,
        keep_days: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._instance_dir, self._keep_days = instance_dir, keep_days
        self._clock, self._due = clock, clock()

    def tend(self) -> None:
        """Delete what is due; call again and again."""
        if self._clock() >= self._due:
            delete_old(self._instance_dir, self._keep_days, time.time())
            self._due = self._clock() + HOUR


def _modified_at(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:  # deleted meanwhile
        return time.time()
