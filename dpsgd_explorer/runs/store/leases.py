"""Leases: a worker claims a run, writes for it, gives it back.

A claim raises the run's fence number, and each write names that number.  If a worker
pauses for longer than its lease, the number has changed and its write is refused: two
workers never write for one run.

Leases are counted by a clock that all processes share: with SQLite, whose processes are
on one machine, by that machine's monotonic clock, which cannot be set; with PostgreSQL
by the server's.  A restart resets the former, so a lease that ends later than the
longest one could counts as over too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from sqlalchemy import ColumnElement, Connection, RowMapping, select, update

from dpsgd_explorer.errors import LeaseLostError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.store import again, fair_queue, holder, pauses, remains
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.records import Checkpoint, Claim
from dpsgd_explorer.runs.store.schema import (
    CANCELLED,
    INTERRUPTED,
    PAUSED,
    QUEUED,
    RUNNING,
    checkpoints,
    runs,
)
from dpsgd_explorer.runs.store.site import counters, orders
from dpsgd_explorer.runs.store.transitions import move, write_events

LARGEST_TRIES = 3
CHANGED = {"changes", "steps"}  # of a phase that has as many steps in all
# A worker cannot extend its lease while another process locks the database, so a lease
# is longer than any such lock should be.
LEASE_SECONDS = 15.0
LONGEST_LEASE_SECONDS = 4 * LEASE_SECONDS
LOST_WORKER = {
    "code": "worker_lost",
    "message": (
        f"the worker died {LARGEST_TRIES} times during this run. Start the run again, "
        "with a smaller batch if memory is short."
    ),
}


class Leases:
    """The writes of workers; each one checks the fence of its run."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float],
        lease_clock: Callable[[], float],
    ) -> None:
        """Do nothing yet.

        Args:
            database: Where the runs are.
            clock: Gives unix seconds.
            lease_clock: Gives seconds that all processes count alike.
        """
        self._database = database
        self.clock, self.lease_clock = clock, lease_clock

    def claim(
        self,
        run_id: str | None = None,
        *,
        lease_s: float = LEASE_SECONDS,
        running_per_visitor: int | None = None,
    ) -> Claim | None:
        """Take the next run of the fair queue, or this one; None if there is none."""
        with self._database.write() as connection:
            if orders.queue_paused_at(connection) is not None:
                return None
            chosen = run_id or fair_queue.next_queued(connection, running_per_visitor)
            run = _row(connection, chosen) if chosen else None
            if run is None or run["state"] != QUEUED:
                return None
            fair_queue.count_start(connection, run["id"])
            fence, lease_until = run["fence"] + 1, self.lease_clock() + lease_s
            move(
                connection,
                run,
                RUNNING,
                self.clock(),
                fence=fence,
                lease_until=lease_until,
                holder=holder.own_name(),
            )
            return Claim(run["id"], fence)

    def heartbeat(self, claim: Claim, *, lease_s: float = LEASE_SECONDS) -> None:
        """Extend the lease while there is nothing to write."""
        with self._database.write() as connection:
            self._held(connection, claim, lease_s)

    def extend_unspoken(
        self, claim: Claim, lease_until: float | None, *, lease_s: float = LEASE_SECONDS
    ) -> float | None:
        """Extend the lease for a process that has not written yet.

        Args:
            claim: The claim that the process was handed.
            lease_until: The return value of the last call; None at first.
            lease_s: Length of the lease in seconds.

        Returns:
            The end of the lease; None if the process has written or lost the run.
        """
        with self._database.write() as connection:
            run = _row(connection, claim.run_id)
            if run is None or lease_until not in (None, run["lease_until"]):
                return None
            try:
                return self._extended(connection, claim, lease_s)
            except LeaseLostError:
                return None

    def append(
        self, claim: Claim, events: Sequence[Event], *, lease_s: float = LEASE_SECONDS
    ) -> int:
        """Store events at the end of the log; return the newest sequence number."""
        with self._database.write() as connection:
            run = self._held(connection, claim, lease_s)
            entries = [(event.kind, event.data) for event in events]
            last_seq = write_events(connection, claim.run_id, run["last_seq"], entries)
            pauses.note_applied(connection, run, events)
            steps = [event.data["step"] for event in events if "step" in event.data]
            planned = [e.data["steps"] for e in events if e.data.keys() >= CHANGED]
            connection.execute(
                update(runs)
                .where(runs.c.id == claim.run_id)
                .values(
                    last_seq=last_seq,
                    step=max([run["step"], *steps]),
                    steps=planned[-1] if planned else run["steps"],
                )
            )
            return last_seq

    def save_checkpoint(
        self,
        claim: Claim,
        data: bytes,
        *,
        program: str = "",
        lease_s: float = LEASE_SECONDS,
    ) -> None:
        """Replace the checkpoint by one that was made after the newest event.

        Args:
            claim: The claim of the run.
            data: ``checkpoint()`` of its experiment.
            program: Name of the program that made it.
            lease_s: Length of the lease in seconds.
        """
        with self._database.write() as connection:
            run = self._held(connection, claim, lease_s)
            values = {"seq": run["last_seq"], "data": data, "program": program}
            mine = checkpoints.c.run_id == claim.run_id
            changed = connection.execute(update(checkpoints).where(mine).values(values))
            if not changed.rowcount:
                connection.execute(
                    checkpoints.insert().values(run_id=claim.run_id, **values)
                )

    def save_weights(
        self, claim: Claim, data: bytes, *, lease_s: float = LEASE_SECONDS
    ) -> bool:
        """Store what a run trained; False if it is too large to be stored."""
        with self._database.write() as connection:
            self._held(connection, claim, lease_s)
            return remains.save_weights(connection, claim.run_id, data, self.clock())

    def checkpoint(self, run_id: str) -> Checkpoint | None:
        """Return the newest checkpoint of a run that has not ended."""
        columns = (checkpoints.c.seq, checkpoints.c.data, checkpoints.c.program)
        query = select(*columns).where(checkpoints.c.run_id == run_id)
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else Checkpoint(*row)

    def finish(
        self, claim: Claim, state: str, *, error: dict[str, str] | None = None
    ) -> None:
        """End the run; its summary is taken from its log."""
        with self._database.write(ends=True) as connection:
            run = self._held(connection, claim, 0)
            move(connection, run, state, self.clock(), error=error)

    def begin_again(self, claim: Claim) -> str:
        """End a run that this program cannot resume; return the id of the next one.

        Returns:
            The id of a queued run with the same settings; "" if there is none.
        """
        with self._database.write(ends=True) as connection:
            run = self._held(connection, claim, 0)
            return again.begin_again(connection, run, self.clock())

    def release(self, claim: Claim, *, lost: bool) -> str:
        """Give a run back to the queue; return its new state.

        Args:
            claim: The claim to give up.
            lost: The worker died, which may happen ``LARGEST_TRIES`` times; else it is
                shutting down, which may happen any number of times.
        """
        with self._database.write(ends=True) as connection:
            run = self._held(connection, claim, 0)
            return _give_back(connection, run, self.clock(), lost=lost)

    def orders(self, claim: Claim) -> pauses.PauseOrder:
        """Return what the visitor wants of the run; this only reads."""
        with self._database.read() as connection:
            return pauses.order(connection, claim.run_id)

    def pause(self, claim: Claim, step: int) -> bool:
        """Enter the pause after this step; False if the visitor wants it no more."""
        with self._database.write() as connection:
            run = self._held(connection, claim, LEASE_SECONDS)
            if pauses.continues(run["until_step"], step):
                return False
            move(connection, run, PAUSED, self.clock(), step=step)
            return True

    def pause_order(self, claim: Claim) -> pauses.PauseOrder:
        """Return what a paused run's process is to do; this only reads.

        Raises:
            LeaseLostError: it holds the run no more.
        """
        with self._database.read() as connection:
            held = select(runs.c.id).where(*_under(claim))
            if connection.scalar(held) is None:
                raise _lease_lost(claim)
            return pauses.order(connection, claim.run_id)

    def go_on(self, claim: Claim, *, running_per_visitor: int | None = None) -> bool:
        """Leave the pause; False if the visitor has runs enough, so that it queues."""
        with self._database.write() as connection:
            run = self._held(connection, claim, LEASE_SECONDS)
            if fair_queue.running_of(connection, run["visitor"]) >= (
                math.inf if running_per_visitor is None else running_per_visitor
            ):
                self._let_go(connection, run)
                move(connection, run, QUEUED, self.clock())
                return False
            move(connection, run, RUNNING, self.clock())
            return True

    def leave(self, claim: Claim, step: int) -> bool:
        """Give up a paused run; False if it is to go on instead."""
        with self._database.write() as connection:
            run = self._held(connection, claim, LEASE_SECONDS)
            if pauses.continues(run["until_step"], step):
                return False
            self._let_go(connection, run)
            return True

    def _let_go(self, connection: Connection, run: RowMapping) -> None:
        """Take lease and fence from the process of a paused run."""
        connection.execute(
            update(runs)
            .where(runs.c.id == run["id"])
            .values(fence=run["fence"] + 1, lease_until=None, holder=None)
        )

    def order(
        self, claim: Claim
    ) -> Literal["continue", "paused", "cancel", "drain", "stop", "lapsed"]:
        """Return the order for the holder of a claim; this only reads.

        "drain": the operator wants no run to train, so that it is to be given back.
        "stop": the run is no longer its own.  "lapsed": the lease ran out.  A holder
        that is paused within a write locks the database: no process can take the run
        from it, but every process can read that its lease has run out.
        """
        columns = (runs.c.cancel, runs.c.lease_until, runs.c.state)
        query = select(*columns).where(*_under(claim))
        with self._database.read() as connection:
            run = connection.execute(query).one_or_none()
            drains = orders.drains(connection)
        if run is None:
            return "stop"
        if run.cancel or drains:
            return "cancel" if run.cancel else "drain"
        if run.lease_until < self.lease_clock():
            return "lapsed"
        return "paused" if run.state == PAUSED else "continue"

    def reap(self, *, only_look: bool = False) -> list[str]:
        """Queue every run again whose holder is lost; return those to ring for.

        Args:
            only_look: If True, queues none, but fails where the database does not
                answer.
        """
        running = select(runs).where(*_HELD)
        with self._database.read() as connection:
            lost = self._lost(connection.execute(running).mappings())
        if not lost or only_look:
            return []
        with self._database.write(ends=True) as connection:
            now = self.clock()
            lost = self._lost(connection.execute(running).mappings())
            states = [_give_back(connection, run, now, lost=True) for run in lost]
        return [run["id"] for run, to in zip(lost, states, strict=True) if to == QUEUED]

    def held(self) -> int:
        """Return the number of runs whose holder is not lost."""
        with self._database.read() as connection:
            running = connection.execute(select(runs).where(*_HELD)).mappings().all()
        return len(running) - len(self._lost(running))

    def _lost(self, running: Iterable[RowMapping]) -> list[RowMapping]:
        """Return the runs whose lease ran out, or whose worker is gone."""
        now = self.lease_clock()
        return [
            run
            for run in running
            if not now <= run["lease_until"] <= now + LONGEST_LEASE_SECONDS
            or holder.is_gone(run["holder"], on_this_machine=self._database.is_embedded)
        ]

    def overdue(
        self, seconds: float, *, running_per_visitor: int | None = None
    ) -> list[str]:
        """Return the next run of the fair queue if it has waited longer than that.

        A run with a creation time in the future is from before the clock was set back.
        """
        with self._database.read() as connection:
            run_id = fair_queue.next_queued(connection, running_per_visitor)
            run = _row(connection, run_id) if run_id else None
        if run is None or 0 <= self.clock() - run["created_at"] < seconds:
            return []
        return [run["id"]]

    def _held(self, connection: Connection, claim: Claim, lease_s: float) -> RowMapping:
        """Extend the lease and return the run, or raise LeaseLostError."""
        run = _row(connection, claim.run_id)
        self._extended(connection, claim, lease_s)
        assert run is not None
        return run

    def _extended(self, connection: Connection, claim: Claim, lease_s: float) -> float:
        """Extend the lease and return its end, or raise LeaseLostError."""
        until = self.lease_clock() + lease_s
        statement = update(runs).where(*_under(claim)).values(lease_until=until)
        if not connection.execute(statement).rowcount:
            raise _lease_lost(claim)
        return until


def _lease_lost(claim: Claim) -> LeaseLostError:
    return LeaseLostError(
        f"this worker no longer owns run {claim.run_id} (fence {claim.fence}), so it "
        "stores nothing more for it."
    )


# Runs that a process holds.
_HELD = (runs.c.state.in_((RUNNING, PAUSED)), runs.c.lease_until.is_not(None))


def _under(claim: Claim) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions under which a run is held by a claim."""
    return runs.c.id == claim.run_id, runs.c.fence == claim.fence, *_HELD


def _row(connection: Connection, run_id: str) -> RowMapping | None:
    query = select(runs).where(runs.c.id == run_id)
    return connection.execute(query).mappings().one_or_none()


def _give_back(
    connection: Connection, run: RowMapping, now: float, *, lost: bool
) -> str:
    """Queue a running run again, unless its visitor or its history ends it here."""
    if lost:
        counters.count(connection, counters.LEASE_LOST)
    if run["cancel"]:
        move(connection, run, CANCELLED, now)
        return CANCELLED
    if run["state"] == PAUSED and not pauses.continues(run["until_step"], run["step"]):
        values = {"lease_until": None, "holder": None, "fence": run["fence"] + 1}
        connection.execute(update(runs).where(runs.c.id == run["id"]).values(values))
        return PAUSED
    tries = run["tries"] + lost
    if tries >= LARGEST_TRIES:
        move(connection, run, INTERRUPTED, now, error=LOST_WORKER, tries=tries)
        return INTERRUPTED
    move(connection, run, QUEUED, now, tries=tries, lease_until=None)
    return QUEUED
