"""Leases: a worker claims a run, writes its events and releases it.

A claim increments the run's fence number, and each write names that number.  If a
worker pauses for longer than its lease, another worker may have changed the number, and
the write is rejected: two workers never write for one run.

Leases use a clock that all processes share.  With SQLite, whose processes are on one
machine, this is the machine's monotonic clock, which cannot be set.  With PostgreSQL it
is the server's clock.  A restart of the machine resets the monotonic clock, so a lease
that ends later than the maximum lease from now also counts as expired.
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

MAX_TRIES = 3  # lost workers after which a run is interrupted
# Keys in the data of a phase event that changes the planned number of steps.
PLAN_CHANGE_KEYS = {"changes", "steps"}
# A worker cannot extend its lease while another process locks the database, so a lease
# is longer than any such lock should be.
LEASE_SECONDS = 15.0
MAX_LEASE_SECONDS = 4 * LEASE_SECONDS
LOST_WORKER = {
    "code": "worker_lost",
    "message": (
        f"the worker died {MAX_TRIES} times during this run. Start the run again, "
        "with a smaller batch if memory is short."
    ),
}


class Leases:
    """Writes of workers; each write checks the fence number of the run.

    Args:
        database: Database of the runs.
        clock: Returns unix seconds.
        lease_clock: Returns seconds by a clock that all processes share.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float],
        lease_clock: Callable[[], float],
    ) -> None:
        self._database = database
        self.clock, self.lease_clock = clock, lease_clock

    def claim(
        self,
        run_id: str | None = None,
        *,
        lease_s: float = LEASE_SECONDS,
        running_per_visitor: int | None = None,
    ) -> Claim | None:
        """Claims a run.

        Args:
            run_id: Run to claim; None claims the next run of the fair queue.
            lease_s: Length of the lease in seconds.
            running_per_visitor: Maximum number of running runs of a visitor; None sets
                no limit.

        Returns:
            The claim; None if no run can start.
        """
        if run_id is None:
            with self._database.read() as connection:  # an empty queue needs no lock
                if _next(connection, running_per_visitor) is None:
                    return None
        with self._database.write() as connection:
            chosen = run_id or _next(connection, running_per_visitor)
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
        """Extends the lease while there are no events to store."""
        with self._database.write() as connection:
            self._held(connection, claim, lease_s)

    def extend_unspoken(
        self, claim: Claim, lease_until: float | None, *, lease_s: float = LEASE_SECONDS
    ) -> float | None:
        """Extends the lease on behalf of a process that has not written yet.

        Args:
            claim: Claim of the process.
            lease_until: Return value of the last call; None in the first call.
            lease_s: Length of the lease in seconds.

        Returns:
            End of the lease; None if the process has written or lost the run.
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
        """Appends events to the log; returns the newest sequence number."""
        with self._database.write() as connection:
            run = self._held(connection, claim, lease_s)
            entries = [(event.kind, event.data) for event in events]
            last_seq = write_events(connection, claim.run_id, run["last_seq"], entries)
            pauses.note_applied(connection, run, events)
            steps = [event.data["step"] for event in events if "step" in event.data]
            planned = [
                e.data["steps"] for e in events if e.data.keys() >= PLAN_CHANGE_KEYS
            ]
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
        """Replaces the checkpoint with a later one, taken after the newest event.

        Args:
            claim: Claim of the run.
            data: Return value of the experiment's ``checkpoint()``.
            program: Name of the program that created the checkpoint.
            lease_s: Length of the lease in seconds.
        """
        with self._database.write() as connection:
            run = self._held(connection, claim, lease_s)
            values = {"seq": run["last_seq"], "data": data, "program": program}
            replaced = update(checkpoints).where(checkpoints.c.run_id == claim.run_id)
            if not connection.execute(replaced.values(values)).rowcount:
                connection.execute(
                    checkpoints.insert().values(run_id=claim.run_id, **values)
                )

    def save_weights(
        self, claim: Claim, data: bytes, *, lease_s: float = LEASE_SECONDS
    ) -> bool:
        """Stores trained weights; returns False if they are too large."""
        with self._database.write() as connection:
            self._held(connection, claim, lease_s)
            return remains.save_weights(connection, claim.run_id, data, self.clock())

    def checkpoint(self, run_id: str) -> Checkpoint | None:
        """Returns the newest checkpoint of a run; None without one."""
        columns = (checkpoints.c.seq, checkpoints.c.data, checkpoints.c.program)
        query = select(*columns).where(checkpoints.c.run_id == run_id)
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else Checkpoint(*row)

    def finish(
        self, claim: Claim, state: str, *, error: dict[str, str] | None = None
    ) -> None:
        """Ends a run and stores the summary of its log."""
        with self._database.write(ends=True) as connection:
            run = self._held(connection, claim, 0)
            move(connection, run, state, self.clock(), error=error)

    def begin_again(self, claim: Claim) -> str:
        """Ends a run that this program cannot resume, and queues a new one.

        Returns:
            Id of a queued run with the same settings; "" if none was queued.
        """
        with self._database.write(ends=True) as connection:
            run = self._held(connection, claim, 0)
            return again.begin_again(connection, run, self.clock())

    def release(self, claim: Claim, *, lost: bool) -> str:
        """Returns a run to the queue; returns its new state.

        Args:
            claim: Claim to release.
            lost: If True, the worker died, which interrupts the run the
                ``MAX_TRIES``-th time.  If False, the worker is shutting down, which
                may happen any number of times.
        """
        with self._database.write(ends=True) as connection:
            run = self._held(connection, claim, 0)
            return _give_back(connection, run, self.clock(), lost=lost)

    def orders(self, claim: Claim) -> pauses.PauseOrder:
        """Returns the visitor's orders for the run, without a write."""
        with self._database.read() as connection:
            return pauses.order(connection, claim.run_id)

    def pause(self, claim: Claim, step: int) -> bool:
        """Pauses a run after ``step``; returns False if the visitor has resumed it."""
        with self._database.write() as connection:
            run = self._held(connection, claim, LEASE_SECONDS)
            if pauses.continues(run["until_step"], step):
                return False
            move(connection, run, PAUSED, self.clock(), step=step)
            return True

    def pause_order(self, claim: Claim) -> pauses.PauseOrder:
        """Returns the visitor's orders for a paused run, without a write.

        Raises:
            LeaseLostError: The process no longer holds the run.
        """
        with self._database.read() as connection:
            held = select(runs.c.id).where(*_under(claim))
            if connection.scalar(held) is None:
                raise _lease_lost(claim)
            return pauses.order(connection, claim.run_id)

    def go_on(self, claim: Claim, *, running_per_visitor: int | None = None) -> bool:
        """Resumes a paused run, or queues it if the visitor has too many running runs.

        Returns:
            True if the run continues; False if it was queued.
        """
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
        """Releases a paused run; returns False if the visitor has resumed it."""
        with self._database.write() as connection:
            run = self._held(connection, claim, LEASE_SECONDS)
            if pauses.continues(run["until_step"], step):
                return False
            self._let_go(connection, run)
            return True

    def _let_go(self, connection: Connection, run: RowMapping) -> None:
        """Removes the lease of a paused run's process and changes the fence number."""
        connection.execute(
            update(runs)
            .where(runs.c.id == run["id"])
            .values(fence=run["fence"] + 1, lease_until=None, holder=None)
        )

    def order(
        self, claim: Claim
    ) -> Literal["continue", "paused", "cancel", "drain", "stop", "lapsed"]:
        """Returns the order for the holder of a claim, without a write.

        | order | meaning |
        |---|---|
        | ``continue`` | train |
        | ``paused`` | the visitor paused the run |
        | ``cancel`` | the visitor or the operator stopped the run |
        | ``drain`` | the operator stopped all training: return the run to the queue |
        | ``stop`` | the claim is no longer valid |
        | ``lapsed`` | the lease has expired |

        A holder that hangs within a write locks the database, so that no process can
        claim the run; the expired lease can still be read.
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
        """Returns runs with a lost holder to the queue.

        Args:
            only_look: If True, only tests whether the database answers.

        Returns:
            Ids of the queued runs.
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
        """Returns the number of runs with a live holder."""
        with self._database.read() as connection:
            running = connection.execute(select(runs).where(*_HELD)).mappings().all()
        return len(running) - len(self._lost(running))

    def _lost(self, running: Iterable[RowMapping]) -> list[RowMapping]:
        """Returns the runs with an expired lease or an ended worker."""
        now = self.lease_clock()
        return [
            run
            for run in running
            if not now <= run["lease_until"] <= now + MAX_LEASE_SECONDS
            or holder.is_gone(run["holder"], on_this_machine=self._database.is_embedded)
        ]

    def _held(self, connection: Connection, claim: Claim, lease_s: float) -> RowMapping:
        """Extends the lease and returns the run, or raises LeaseLostError."""
        run = _row(connection, claim.run_id)
        self._extended(connection, claim, lease_s)
        assert run is not None
        return run

    def _extended(self, connection: Connection, claim: Claim, lease_s: float) -> float:
        """Extends the lease and returns its end, or raises LeaseLostError."""
        until = self.lease_clock() + lease_s
        statement = update(runs).where(*_under(claim)).values(lease_until=until)
        if not connection.execute(statement).rowcount:
            raise _lease_lost(claim)
        return until


def _next(connection: Connection, running_per_visitor: int | None) -> str | None:
    """Returns the id of the run to start next; None without one, or in a pause."""
    if orders.queue_paused_at(connection) is not None:
        return None
    return fair_queue.next_queued(connection, running_per_visitor)


def _lease_lost(claim: Claim) -> LeaseLostError:
    return LeaseLostError(
        f"this worker no longer owns run {claim.run_id} (fence {claim.fence}), so it "
        "stores nothing more for it."
    )


# Conditions of a run that a process holds.
_HELD = (runs.c.state.in_((RUNNING, PAUSED)), runs.c.lease_until.is_not(None))


def _under(claim: Claim) -> tuple[ColumnElement[bool], ...]:
    """Returns the conditions of a run that is held under a claim."""
    return runs.c.id == claim.run_id, runs.c.fence == claim.fence, *_HELD


def _row(connection: Connection, run_id: str) -> RowMapping | None:
    query = select(runs).where(runs.c.id == run_id)
    return connection.execute(query).mappings().one_or_none()


def _give_back(
    connection: Connection, run: RowMapping, now: float, *, lost: bool
) -> str:
    """Returns a run to the queue; returns its new state.

    A stopped run ends, a paused run remains paused, and a run that has lost too many
    workers is interrupted.
    """
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
    if tries >= MAX_TRIES:
        move(connection, run, INTERRUPTED, now, error=LOST_WORKER, tries=tries)
        return INTERRUPTED
    move(connection, run, QUEUED, now, tries=tries, lease_until=None)
    return QUEUED
