"""What a kind of database does in its own way."""

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
    """Waits until there may be more events; for one thread."""

    @abstractmethod
    def wait(self) -> None:
        """Return soon after events were stored, and now and then without."""

    @abstractmethod
    def close(self) -> None:
        """Hold nothing any more."""


class Backend(ABC):
    """One pool of connections, and the statements that only this kind knows.

    Attributes:
        engine: The pool; a transaction begins as ``begin`` says.
        is_embedded: All its processes are on this machine; its tables are brought up
            to the present version when it is opened.
    """

    engine: Engine
    is_embedded: bool

    @abstractmethod
    def begin(self, connection: Connection) -> None:
        """Begin a transaction: one that writes has to be the only one that does."""

    @abstractmethod
    def translation(self, error: DBAPIError) -> ExplorerError | None:
        """Return a fault of the database in our own words; None: it is a bug."""

    @abstractmethod
    def clock(self) -> float:
        """Return unix seconds, the same for all processes."""

    @abstractmethod
    def lease_clock(self) -> float:
        """Return seconds that all processes count alike, and that nobody sets."""

    @abstractmethod
    def demand_reserve(self) -> None:
        """Raise StorageFullError if there is no room for work."""

    @abstractmethod
    def release_reserve(self) -> None:
        """Free some space, so that runs can end on a full disk."""

    def transaction_id(self, _connection: Connection) -> Any:
        """Return what ``was_committed`` takes."""
        return None

    def was_committed(self, _transaction: Any, _patience_s: float) -> bool:
        """Whether a transaction was committed whose commit was not answered."""
        return False

    @abstractmethod
    def wake(self, channel: str, poll_s: float) -> Wake:
        """Return what waits for events.

        Args:
            channel: Where PostgreSQL tells of them.
            poll_s: Seconds between two looks where nothing tells of them.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that the database takes on the disk."""

    @abstractmethod
    def shrink(self, connection: Connection, pages: int) -> int:
        """Give some free pages back to the disk; return how many."""

    @abstractmethod
    def compact(self, connection: Connection) -> None:
        """Give all free pages back, outside a transaction."""


def storage_busy() -> StorageBusyError:
    """Return the error of a write that waited for others too long."""
    return StorageBusyError(
        "another process locked the database for too long. Try again soon."
    )
