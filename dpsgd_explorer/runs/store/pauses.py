"""Pause, resume, one step at a time: the number of the step after which a run pauses.

The visitor's order is a state and no message: ``until_step`` of the run, null to train
to the end.  A worker reads it between two steps.  It cannot be lost or carried out
twice, whatever dies.

A paused run keeps its process and its lease for a while, so that the next step comes at
once.  It then gives both up, since other runs may need the place; its checkpoint stays,
and when it is resumed it goes to the front of the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, exists, select, update

from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.records import not_found
from dpsgd_explorer.runs.store.schema import FINAL_STATES, PAUSED, QUEUED, runs
from dpsgd_explorer.runs.store.transitions import move


@dataclass(frozen=True)
class PauseOrder:
    """What a paused run's process reads.

    Attributes:
        until_step: The step after which it pauses; None: it trains to the end.
        others_wait: Whether runs are queued.
    """

    until_step: int | None
    others_wait: bool

    def continues(self, step: int) -> bool:
        """Whether a run that has done so many steps is to go on."""
        return continues(self.until_step, step)


def continues(until_step: int | None, step: int) -> bool:
    """Whether a run that has done so many steps is to go on."""
    return until_step is None or until_step > step


class Pauses:
    """The orders of visitors; a run that has ended stays as it is."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        """Do nothing yet; the clock gives unix seconds."""
        self._database, self._clock = database, clock

    def pause(self, run_id: str, visitor: str) -> None:
        """Order a run to pause after the step that it is at."""
        self._order(run_id, visitor, lambda run: int(run["step"]))

    def resume(self, run_id: str, visitor: str) -> None:
        """Order a run to train to its end."""
        self._order(run_id, visitor, lambda _: None)

    def take_step(self, run_id: str, visitor: str) -> None:
        """Order one step more than was ordered, then a pause."""
        self._order(
            run_id, visitor, lambda run: max(run["step"], run["until_step"] or 0) + 1
        )

    def _order(
        self, run_id: str, visitor: str, until: Callable[[RowMapping], int | None]
    ) -> None:
        mine = (runs.c.id == run_id, runs.c.visitor == visitor)
        query = select(runs).where(*mine, runs.c.deleted_at.is_(None))
        with self._database.write() as connection:
            run = connection.execute(query).mappings().one_or_none()
            if run is None:
                raise not_found(run_id)
            _order(connection, run, until(run), self._clock())


def _order(
    connection: Connection, run: RowMapping, until_step: int | None, now: float
) -> None:
    """Store the order; a run that has ended stays as it is."""
    if run["state"] in FINAL_STATES:
        return
    connection.execute(
        update(runs).where(runs.c.id == run["id"]).values(until_step=until_step)
    )
    has_process = run["lease_until"] is not None
    if (
        run["state"] == PAUSED
        and not has_process
        and continues(until_step, run["step"])
    ):
        move(connection, run, QUEUED, now)


def order(connection: Connection, run_id: str) -> PauseOrder:
    """Return what the process of a run is to do."""
    until = connection.scalar(select(runs.c.until_step).where(runs.c.id == run_id))
    waits = connection.scalar(select(exists().where(runs.c.state == QUEUED)))
    return PauseOrder(until, bool(waits))
