"""Runs, their logs and their positions in the queue, for the web layer.

Any visitor with the id of a run may read the run.  Only its owner may stop, rename or
delete it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Self, Unpack

from sqlalchemy import Connection, RowMapping, Select, func, select

from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.groups import RunGroup
from dpsgd_explorer.identifiers import new_id
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store import (
    admission,
    deletion,
    fair_queue,
    groups,
    launching,
    pauses,
    remains,
)
from dpsgd_explorer.runs.store.continuing import Continuing
from dpsgd_explorer.runs.store.database import Database, Waits
from dpsgd_explorer.runs.store.labels import checked_name, entitle, relabel
from dpsgd_explorer.runs.store.leases import Leases
from dpsgd_explorer.runs.store.phases import phases_of_runs
from dpsgd_explorer.runs.store.records import (
    Group,
    QueuePlace,
    Run,
    StoredEvent,
    count_by_state,
    not_found,
)
from dpsgd_explorer.runs.store.schema import events, runs
from dpsgd_explorer.runs.store.site import orders
from dpsgd_explorer.runs.store.transitions import forget
from dpsgd_explorer.settings import Settings

EVENTS_PER_PAGE = 200  # events per query, of up to a few kB each


class RunStore:
    """The runs table and the log; safe to share between threads.

    Attributes:
        database: Connections to the database.
        clock: Returns unix seconds.
        leases: Writes of the workers: claims, events, checkpoints, ends.
        pauses: Orders of visitors: pauses, single steps, changed settings.
        continuing: Continuation of finished runs.
    """

    def __init__(
        self,
        database_url: str,
        *,
        quotas: Quotas | None = None,
        cost_limit: float = math.inf,
        clock: Callable[[], float] | None = None,
        lease_clock: Callable[[], float] | None = None,
        **waits: Unpack[Waits],
    ) -> None:
        """Opens the database, and creates the tables of a new SQLite file.

        Args:
            database_url: SQLAlchemy URL.
            quotas: Limits of visitors, networks and the site; None sets no limits.
            cost_limit: Multiply-adds that one run, or one group, may need.
            clock: Returns unix seconds; None uses the database's clock.
            lease_clock: Returns seconds by a clock that all processes share; None uses
                the database's clock.
            **waits: ``patience_s`` and ``outage_s``, see ``Database``.
        """
        self.database = Database(database_url, **waits)
        self.clock = clock = clock or self.database.clock
        self.leases = Leases(
            self.database,
            clock=clock,
            lease_clock=lease_clock or self.database.lease_clock,
        )
        self.pauses = pauses.Pauses(self.database, clock, cost_limit)
        self._quotas = quotas or Quotas()
        self._limits: dict[str, Any] = {
            "quotas": self._quotas,
            "cost_limit": cost_limit,
        }
        self.continuing = Continuing(self.database, clock, **self._limits)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Opens the store of an installation, with its limits."""
        return cls(
            settings.database_url,
            quotas=settings.quotas,
            cost_limit=settings.run_cost,
        )

    def create(
        self,
        config: RunConfig,
        *,
        visitor: str,
        network: str = "",
        name: str = "",
        title: str = "",
        group: str = "",
        parent: str = "",
    ) -> Run:
        """Queues a run; its first event is the state "queued".

        Args:
            config: Settings of the run.
            visitor: Owner of the run.
            network: Network of the request, see ``networks``; "" if no quota counts it.
            name: The visitor's name for the run.
            title: Title that follows from the settings; see ``labels.distinct_title``.
            group: The visitor's name for a group of runs, which count as one launch.
            parent: Id of the run whose settings were reused; "" without one.

        Raises:
            ConfigError: The run costs too much, cannot reach its target, or has an
                invalid name.
            QuotaError: A limit of the visitor, the network or the site is reached.
            StorageFullError: The disk is full; existing runs can still be read.
        """
        config.check_reachable()
        launch = admission.Launch(
            run_id=new_id(),
            visitor=visitor,
            network=network,
            group=checked_name("group", group),
        )
        with self.database.write() as connection:
            groups.check_name_is_free(connection, launch.group)
            return launching.queue(
                connection,
                config,
                launch,
                name=checked_name("name", name),
                title=title,
                parent=parent,
                now=self.clock(),
                **self._limits,
            )

    def create_group(
        self, group: RunGroup, *, visitor: str, network: str = ""
    ) -> Group:
        """Queues all runs of a group in one transaction.

        Args:
            group: Settings of the runs.
            visitor: Owner of the runs.
            network: Network of the request, see ``networks``; "" if no quota counts it.

        Raises:
            ConfigError, QuotaError, StorageFullError: See ``create``.
        """
        for config in group.configs:
            config.check_reachable()
        admission.check_cost_together(group.configs, self._limits["cost_limit"])
        group_id = new_id()
        with self.database.write() as connection:
            now = self.clock()
            groups.add(connection, group_id, group, visitor, now)
            for i, config in enumerate(group.configs):
                at = now + i * 1e-6  # runs are ordered by their times of creation
                launch = admission.Launch(
                    run_id=new_id(),
                    visitor=visitor,
                    network=network,
                    group=group_id,
                )
                launching.queue(
                    connection,
                    config,
                    launch,
                    name=group.label(config),
                    now=at,
                    **self._limits,
                )
            return groups.read(connection, group_id)

    def get(self, run_id: str) -> Run:
        """Returns a run; raises RunNotFoundError if it does not exist."""
        with self.database.read() as connection:
            row = connection.execute(_by_id(run_id)).mappings().one_or_none()
        return Run.from_row(_existing(row, run_id))

    def runs_of(self, visitor: str, limit: int = 100) -> list[Run]:
        """Returns at most ``limit`` runs of a visitor, newest first."""
        query = (
            select(runs)
            .where(runs.c.visitor == visitor, runs.c.deleted_at.is_(None))
            .order_by(runs.c.created_at.desc(), runs.c.id)
            .limit(limit)
        )
        with self.database.read() as connection:
            return [Run.from_row(row) for row in connection.execute(query).mappings()]

    def entitle(self, run: Run, title: str) -> Run:
        """Stores the title derived from a run's settings; see ``labels.entitle``."""
        with self.database.write() as connection:
            entitle(connection, run.id, run.visitor, title, run.config)
        return self.get(run.id)

    def previous(self, run: Run) -> Run | None:
        """Returns the visitor's last earlier run of the same kind; None without one."""
        query = (
            select(runs)
            .where(
                runs.c.visitor == run.visitor,
                runs.c.deleted_at.is_(None),
                runs.c.kind == run.kind,
                runs.c.created_at < run.created_at,
            )
            .order_by(runs.c.created_at.desc())
            .limit(1)
        )
        with self.database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else Run.from_row(row)

    def label(
        self,
        run_id: str,
        visitor: str,
        *,
        name: str | None = None,
        note: str | None = None,
        starred: bool | None = None,
    ) -> Run:
        """Stores the labels that are not None; "" removes a name or a note."""
        labels = {"name": name, "note": note, "starred": starred}
        with self.database.write() as connection:
            if not relabel(connection, run_id, visitor, **labels):
                raise not_found(run_id)
        return self.get(run_id)

    def cancel(self, run_id: str, visitor: str) -> Run:
        """Ends a queued run now, or orders the worker to end a running one.

        A run that has ended is left unchanged.
        """
        with self.database.write(ends=True) as connection:
            row = connection.execute(_by_id(run_id, visitor)).mappings().one_or_none()
            deletion.stop(connection, _existing(row, run_id), self.clock())
        return self.get(run_id)

    def cancel_group(self, group_id: str, visitor: str) -> Group:
        """Cancels all runs of a group, see ``cancel``."""
        with self.database.write(ends=True) as connection:
            groups.act_on_runs(
                connection, group_id, visitor, deletion.stop, self.clock()
            )
            return groups.read(connection, group_id)

    def delete(self, run_id: str, visitor: str) -> None:
        """Stops a run and hides it from every list; ``purge`` deletes it later."""
        with self.database.write(ends=True) as connection:
            row = connection.execute(_by_id(run_id, visitor)).mappings().one_or_none()
            deletion.delete(connection, _existing(row, run_id), self.clock())

    def restore(self, run_id: str, visitor: str) -> Run:
        """Undoes a deletion of the last seconds; the run remains stopped."""
        with self.database.write() as connection:
            if not deletion.restore(connection, run_id, visitor, self.clock()):
                raise not_found(run_id)
        return self.get(run_id)

    def deleted_of(self, visitor: str) -> list[Run]:
        """Returns the runs that a visitor can restore, most recently deleted first."""
        since = self.clock() - deletion.UNDO_SECONDS
        query = (
            select(runs)
            .where(runs.c.visitor == visitor, runs.c.deleted_at > since)
            .order_by(runs.c.deleted_at.desc())
        )
        with self.database.read() as connection:
            return [Run.from_row(row) for row in connection.execute(query).mappings()]

    def purge(self, limit: int) -> int:
        """Deletes some runs that can no longer be restored; returns their number."""
        return self._forget(partial(deletion.overdue, now=self.clock(), limit=limit))

    def delete_ended(self, before: float, limit: int) -> int:
        """Deletes some runs that ended before a time; returns their number.

        Paused runs created before that time are included.
        """
        return self._forget(partial(deletion.ended, before=before, limit=limit))

    def _forget(self, find: Callable[[Connection], Sequence[str]]) -> int:
        """Deletes the found runs; locks the database only if there are any."""
        with self.database.read() as connection:
            if not find(connection):
                return 0
        with self.database.write(ends=True) as connection:
            run_ids = find(connection)
            forget(connection, run_ids)
        return len(run_ids)

    def forget_visitor(self, visitor: str) -> deletion.Forgotten:
        """Deletes all data of a visitor immediately; this cannot be undone."""
        with self.database.write(ends=True) as connection:
            return deletion.forget_visitor(connection, visitor, self.clock())

    def weights(self, run_id: str) -> bytes | None:
        """Returns the file of a run's trained weights; None without weights."""
        with self.database.read() as connection:
            return remains.load_weights(connection, run_id)

    def weights_size(self, run_id: str) -> int:
        """Returns the size of a run's weights in bytes; 0 without weights."""
        with self.database.read() as connection:
            return remains.weights_size(connection, run_id)

    def group(self, group_id: str) -> Group:
        """Returns a group; raises RunNotFoundError if it does not exist."""
        with self.database.read() as connection:
            return groups.read(connection, group_id)

    def delete_group(self, group_id: str, visitor: str) -> None:
        """Deletes all runs of a group, see ``delete``."""
        with self.database.write(ends=True) as connection:
            groups.act_on_runs(
                connection, group_id, visitor, deletion.delete, self.clock()
            )

    def group_events(self, group_id: str, after: int, limit: int) -> list[StoredEvent]:
        """Returns the events of a group after the event ``after``, oldest first."""
        return self._events(groups.events_after(group_id, after).limit(limit))

    def events(
        self, run_id: str, after: int = 0, limit: int | None = None, kind: str = ""
    ) -> list[StoredEvent]:
        """Returns a run's events with ``seq > after`` in order; ``kind`` "" is all."""
        query = (
            select(events)
            .where(events.c.run_id == run_id, events.c.seq > after)
            .order_by(events.c.seq)
            .limit(limit)
        )
        return self._events(query.where(events.c.kind == kind) if kind else query)

    def each_event(self, run_id: str, after: int = 0) -> Iterator[StoredEvent]:
        """Yields a run's events with ``seq > after``, read in pages."""
        while page := self.events(run_id, after, EVENTS_PER_PAGE):
            yield from page
            after = page[-1].seq

    def phases_of(self, run_ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Returns {run id: data of the ``phase`` events in order}."""
        with self.database.read() as connection:
            return phases_of_runs(connection, run_ids)

    def events_since(self, event_id: int, limit: int) -> list[StoredEvent]:
        """Returns events of all runs with ``id > event_id``, oldest first."""
        query = select(events).where(events.c.id > event_id).order_by(events.c.id)
        return self._events(query.limit(limit))

    def last_event_id(self) -> int:
        """Returns the id of the newest event of all runs; 0 without events."""
        with self.database.read() as connection:
            return connection.scalar(select(func.max(events.c.id))) or 0

    def queue_place(self, run_id: str) -> QueuePlace:
        """Returns a run's position in the queue, and whether the queue is paused."""
        with self.database.read() as connection:
            return QueuePlace(
                position=fair_queue.position(connection, run_id),
                is_paused=orders.queue_paused_at(connection) is not None,
            )

    def counts(self) -> dict[str, int]:
        """Returns the number of runs in each state."""
        with self.database.read() as connection:
            return count_by_state(connection)

    def launches_since(self, visitor: str, timestamp: float) -> int:
        """Returns the number of a visitor's launches; a group counts once."""
        with self.database.read() as connection:
            return admission.launches_since(connection, visitor, timestamp)

    def _events(self, query: Select[Any]) -> list[StoredEvent]:
        with self.database.read() as connection:
            return [StoredEvent(*row) for row in connection.execute(query)]


def _by_id(run_id: str, visitor: str | None = None) -> Select[Any]:
    query = select(runs).where(runs.c.id == run_id, runs.c.deleted_at.is_(None))
    return query if visitor is None else query.where(runs.c.visitor == visitor)


def _existing(row: RowMapping | None, run_id: str) -> RowMapping:
    if row is None:
        raise not_found(run_id)
    return row
