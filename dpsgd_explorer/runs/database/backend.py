"""Interface of a kind of database: SQLite or PostgreSQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from dpsgd_explorer.errors import ExplorerError, StorageBusyError

# Execution option of connections that write.
WRITES = "writes"


class Wake(ABC):
    """Waits for new events; used by one thread."""

    @abstractmethod
    def wait(self) -> None:
        """Returns soon after events were stored, and sometimes without new events."""

    @abstractmethod
    def close(self) -> None:
        """Releases all resources."""


class Backend(ABC):
    """A pool of connections, and the operations that depend on the kind of database.

    Attributes:
        engine: Pool of connections, whose transactions are started by ``begin``.
        is_embedded: If True, all processes that use the database are on this machine,
            and its tables are migrated to the current version when it is opened.
    """

    engine: Engine
    is_embedded: bool

    @abstractmethod
    def begin(self, connection: Connection) -> None:
        """Begins a transaction; at most one transaction may write at a time."""

    @abstractmethod
    def translation(self, error: DBAPIError) -> ExplorerError | None:
        """Returns the error class for a fault of the database; None for a bug."""

    @abstractmethod
    def clock(self) -> float:
        """Returns unix seconds by a clock that all processes share."""

    @abstractmethod
    def lease_clock(self) -> float:
        """Returns seconds by a clock that all processes share and nobody sets."""

    @abstractmethod
    def demand_reserve(self) -> None:
        """Raises StorageFullError if there is no space for training."""

    @abstractmethod
    def release_reserve(self) -> None:
        """Frees some space, so that runs can end on a full disk."""

    def transaction_id(self, _connection: Connection) -> Any:
        """Returns the argument of ``was_committed``."""
        return None

    def was_committed(self, _transaction: Any, _patience_s: float) -> bool:
        """Returns True if a transaction with an unanswered commit was committed."""
        return False

    def announce_commit(self) -> None:  # noqa: B027  # servers announce it themselves
        """Wakes the listeners on this machine."""

    @abstractmethod
    def wake(self, channel: str) -> Wake:
        """Returns an object that waits for events on a channel of PostgreSQL."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Size of the database on the disk, in bytes."""

    @abstractmethod
    def shrink(self, connection: Connection, pages: int) -> int:
        """Releases up to ``pages`` free pages to the disk; returns their number."""

    @abstractmethod
    def compact(self, connection: Connection) -> None:
        """Releases all free pages to the disk, outside a transaction."""


def storage_busy() -> StorageBusyError:
    """Returns the error of a write that waited too long for other writes."""
    return StorageBusyError(
        "another process locked the database for too long. Try again soon."
    )
