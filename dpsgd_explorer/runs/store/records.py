"""The records that the store returns: plain and frozen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping

from dpsgd_explorer.errors import RunNotFoundError
from dpsgd_explorer.runs.store.schema import FINAL_STATES, VIOLATION


@dataclass(frozen=True, kw_only=True)
class Run:
    """The public part of one run; times are unix seconds.

    Attributes:
        title: The name that follows from its settings, none twice for a visitor; None
            of runs that are older than titles.
        config: Its settings, as JSON values.
        summary: ``epsilon, delta, steps, seconds`` and what its kind measures
            (``test_accuracy, test_loss``), as far as known; empty until it has ended.
        note: The visitor's words about it.
        deleted_at: When its visitor deleted it; it can still be restored.
        error: ``code`` and ``message`` of a run that failed or was interrupted.
        step: Steps taken so far.
        steps: Steps planned.
        last_seq: Sequence number of its newest event.
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
        """No event will follow."""
        return self.state in FINAL_STATES

    @property
    def is_refuted(self) -> bool:
        """Whether its own audit refuted its promise beyond doubt."""
        return self.error is not None and self.error.get("code") == VIOLATION

    @classmethod
    def from_row(cls, row: RowMapping) -> Run:
        """Read a row of the runs table, without the columns for workers."""
        values = {name: row[name] for name in cls.__dataclass_fields__}
        for name in ("config", "summary", "error"):
            values[name] = json.loads(values[name]) if values[name] else None
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that were made together; ``created_at`` is in unix seconds.

    Attributes:
        purpose: One of ``experiments.groups.PURPOSES``.
        setting: Name of the setting that differs between the runs, "" if several do.
        runs: Those that are not deleted, in the order in which they were made.
    """

    id: str
    visitor: str
    purpose: str
    setting: str
    created_at: float
    runs: list[Run]

    @property
    def has_ended(self) -> bool:
        """No event of any of its runs will follow."""
        return all(run.has_ended for run in self.runs)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One entry of a run's log.

    Attributes:
        id: Position among the events of all runs.
        seq: Position in its run's log: 1, 2, …
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
        """No event of this run will follow."""
        return self.kind == "state" and json.loads(self.data)["state"] in FINAL_STATES


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write for a run, until the lease ends or the fence moves on."""

    run_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state from which a run can resume.

    Attributes:
        seq: The last event of the run when it was made.
        data: ``checkpoint()`` of its experiment; None: the start.
        program: Name of the program that made it, "" if that is not known.
    """

    seq: int
    data: bytes | None
    program: str = ""


def not_found(run_id: str) -> RunNotFoundError:
    """Return the error about a run that does not exist, or is another visitor's."""
    return RunNotFoundError(
        f"run {run_id!r} does not exist on this site, or belongs to another visitor."
    )
