"""Frozen records that the store returns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select

from dpsgd_explorer.errors import RunNotFoundError
from dpsgd_explorer.runs.store.schema import FINAL_STATES, MOVES, VIOLATION, runs


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run without the columns of workers; times are unix seconds.

    Attributes:
        title: Name derived from the settings, unique per visitor; None for runs stored
            before titles existed.
        config: Settings, as JSON values.
        summary: ``epsilon, delta, steps, seconds`` and the measurements of the kind
            (``test_accuracy, test_loss``), as far as known; empty until the run ends.
        note: The visitor's note.
        deleted_at: Time when the visitor deleted the run, which can still be restored.
        error: ``code`` and ``message`` of a run that failed or was interrupted.
        step: Number of steps taken.
        steps: Number of planned steps.
        last_seq: Sequence number of the newest event.
    """

    id: str
    kind: str
    state: str
    visitor: str
    name: str
    title: str | None
    group: str
    parent: str
    note: str
    starred: bool
    deleted_at: float | None
    config: dict[str, Any]
    summary: dict[str, Any]
    error: dict[str, str] | None
    step: int
    steps: int
    created_at: float
    started_at: float | None
    ended_at: float | None
    last_seq: int

    @property
    def has_ended(self) -> bool:
        """True if no event will follow."""
        return self.state in FINAL_STATES

    @property
    def is_refuted(self) -> bool:
        """True if the audit of the run contradicts its privacy guarantee."""
        return self.error is not None and self.error.get("code") == VIOLATION

    @classmethod
    def from_row(cls, row: RowMapping) -> Run:
        """Returns the run in a row of the runs table."""
        values = {name: row[name] for name in cls.__dataclass_fields__}
        for name in ("config", "summary", "error"):
            values[name] = json.loads(values[name]) if values[name] else None
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that were created together; ``created_at`` is in unix seconds.

    Attributes:
        purpose: One of ``experiments.groups.PURPOSES``.
        setting: Name of the setting that differs between the runs, "" if several do.
        runs: Runs that are not deleted, in order of creation.
    """

    id: str
    visitor: str
    purpose: str
    setting: str
    created_at: float
    runs: list[Run]

    @property
    def has_ended(self) -> bool:
        """True if no event of any run of the group will follow."""
        return all(run.has_ended for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """Place of a run in the queue.

    Attributes:
        position: 1 for the run that starts next; None if the run is not queued.
        is_paused: True if the operator paused the queue, so that no run starts.
    """

    position: int | None
    is_paused: bool


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event in the log of a run.

    Attributes:
        id: Position among the events of all runs.
        run_id: Id of the run.
        seq: Position in the log of the run: 1, 2, …
        kind: ``state``, ``phase``, ``progress``, ``step``, ``evaluation``, ``model``
            or ``end``.
        data: JSON text.
    """

    id: int
    run_id: str
    seq: int
    kind: str
    data: str

    @property
    def ends_run(self) -> bool:
        """True if no event of the run will follow."""
        return self.kind == "state" and json.loads(self.data)["state"] in FINAL_STATES


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write for a run until its lease expires or its fence changes."""

    run_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A stored state of a run, for resuming.

    Attributes:
        seq: Sequence number of the run's last event before the checkpoint.
        data: Return value of the experiment's ``checkpoint()``; None for the start.
        program: Name of the program that created the checkpoint, "" if unknown.
    """

    seq: int
    data: bytes | None
    program: str = ""


def count_by_state(connection: Connection) -> dict[str, int]:
    """Returns the number of stored runs in each state."""
    query = select(runs.c.state, func.count().label("number")).group_by(runs.c.state)
    rows = connection.execute(query).all()
    return dict.fromkeys(MOVES, 0) | {row.state: row.number for row in rows}


def not_found(run_id: str) -> RunNotFoundError:
    """Returns the error for a missing run, or a run of another visitor."""
    return RunNotFoundError(
        f"run {run_id!r} does not exist on this site, or belongs to another visitor."
    )
