"""A visitor's orders for a running run: pause, single steps, changed settings.

Orders are columns of the run, not messages.  ``until_step`` is the step after which the
run pauses; null trains to the end.  ``changes`` contains settings that apply from the
next step on; in a continuation it also contains ``further_steps``.  The worker reads
both columns between two steps.  The transaction that stores the ``phase`` event of a
change removes the change from the column, so it is applied exactly once even if a
process dies.

A paused run keeps its process and its lease for a while, so that the next step starts
immediately.  It then releases both, because other runs may need the place.  Its
checkpoint is kept, and a resumed run goes to the front of the queue.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, exists, select, update

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig, check_cost
from dpsgd_explorer.experiments.events import Event, changes_of
from dpsgd_explorer.experiments.kinds import parse
from dpsgd_explorer.experiments.mid_run import FURTHER
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.phases import phases_of_runs
from dpsgd_explorer.runs.store.records import not_found
from dpsgd_explorer.runs.store.schema import FINAL_STATES, PAUSED, QUEUED, runs
from dpsgd_explorer.runs.store.transitions import move, to_json


@dataclass(frozen=True)
class PauseOrder:
    """A visitor's orders for a run, as its process reads them.

    Attributes:
        until_step: Step after which the run pauses; None trains to the end.
        changes: Settings that apply from the next step on.
        others_wait: True if runs are queued.
        further_steps: Number of further steps of a continuation; None for other runs,
            or if the log already contains the number.
    """

    until_step: int | None
    changes: dict[str, Any]
    others_wait: bool
    further_steps: int | None = None

    def continues(self, step: int) -> bool:
        """Returns True if the run should train beyond ``step``."""
        return continues(self.until_step, step)


def continues(until_step: int | None, step: int) -> bool:
    """Returns True if a run with this order should train beyond ``step``."""
    return until_step is None or until_step > step


class Pauses:
    """Stores the orders of visitors; orders for ended runs have no effect.

    Args:
        database: Database of the runs.
        clock: Returns unix seconds.
        cost_limit: Multiply-adds that one run may need.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        cost_limit: float = math.inf,
    ) -> None:
        self._database, self._clock = database, clock
        self._cost_limit = cost_limit

    def pause(self, run_id: str, visitor: str) -> None:
        """Orders a run to pause after its current step."""
        self._order(run_id, visitor, lambda run: int(run["step"]))

    def resume(self, run_id: str, visitor: str) -> None:
        """Orders a run to train to the end."""
        self._order(run_id, visitor, lambda _: None)

    def take_step(self, run_id: str, visitor: str) -> None:
        """Orders one more step, in addition to earlier orders, then a pause."""
        self._order(
            run_id, visitor, lambda run: max(run["step"], run["until_step"] or 0) + 1
        )

    def change(self, run_id: str, visitor: str, values: Mapping[str, Any]) -> None:
        """Orders changed settings from the next step on.

        A value equal to the current setting removes an earlier order.

        Raises:
            ConfigError: A value is outside its domain or cannot be changed, or the run
                has ended.
        """
        with self._database.read() as connection:
            run = own_run(connection, run_id, visitor)
            config = config_now(connection, run)
        _check_has_not_ended(run, values)
        self._check_change(config, run["step"], values)
        with self._database.write() as connection:
            run = own_run(connection, run_id, visitor)
            _check_has_not_ended(run, values)
            ordered = json.loads(run["changes"] or "{}") | dict(values)
            current = _config_in_force(connection, run).model_dump()
            changes = {
                name: value
                for name, value in ordered.items()
                if value != current.get(name)
            }
            store_changes(connection, run_id, changes)

    def config(self, run_id: str) -> RunConfig:
        """Returns the settings of a run with all changes, also the pending ones."""
        with self._database.read() as connection:
            query = select(runs).where(runs.c.id == run_id)
            run = connection.execute(query).mappings().one_or_none()
            if run is None:
                raise not_found(run_id)
            return config_now(connection, run)

    def _check_change(
        self, config: RunConfig, step: int, values: Mapping[str, Any]
    ) -> None:
        wanted = config.changed(values)
        if values.get("steps", step) < step:
            raise ConfigError(
                "steps",
                f"steps must be at least {step}, the number of steps done, got "
                f"{values['steps']}.",
            )
        if wanted.cost > config.cost:
            check_cost(wanted, self._cost_limit)

    def _order(
        self, run_id: str, visitor: str, until: Callable[[RowMapping], int | None]
    ) -> None:
        with self._database.write() as connection:
            run = own_run(connection, run_id, visitor)
            _order(connection, run, until(run), self._clock())


def own_run(connection: Connection, run_id: str, visitor: str) -> RowMapping:
    """Returns a run of a visitor, or raises RunNotFoundError."""
    query = select(runs).where(
        runs.c.id == run_id, runs.c.visitor == visitor, runs.c.deleted_at.is_(None)
    )
    run = connection.execute(query).mappings().one_or_none()
    if run is None:
        raise not_found(run_id)
    return run


def _check_has_not_ended(run: RowMapping, values: Mapping[str, Any]) -> None:
    if run["state"] in FINAL_STATES:
        field = next(iter(values), "")
        raise ConfigError(
            field,
            "the run has ended, so its settings no longer change. Continue it, or "
            "start another run with this setting.",
        )


def config_now(connection: Connection, run: RowMapping) -> RunConfig:
    """Returns the settings of a run with all changes, also the pending ones."""
    config = _config_in_force(connection, run)
    waiting = json.loads(run["changes"] or "{}")
    return config.after(run["step"], waiting) if waiting else config


def _config_in_force(connection: Connection, run: RowMapping) -> RunConfig:
    """Returns the settings of a run with the changes in its log."""
    config = parse(json.loads(run["config"]))
    for step, values in changes_of(phases_of_runs(connection, [run["id"]])[run["id"]]):
        config = config.after(step, values)
    return config


def store_changes(
    connection: Connection, run_id: str, changes: Mapping[str, Any]
) -> None:
    """Stores the settings that a run changes at its next step."""
    text = to_json(changes) if changes else None
    connection.execute(update(runs).where(runs.c.id == run_id).values(changes=text))


def note_applied(
    connection: Connection, run: RowMapping, events: Sequence[Event]
) -> None:
    """Removes changes that these events record from the order."""
    applied: dict[str, Any] = {}
    for event in events:
        applied |= event.data.get("changes", {}) if event.kind == "phase" else {}
    if applied:
        ordered = json.loads(run["changes"] or "{}")
        pending = {
            name: value for name, value in ordered.items() if value != applied.get(name)
        }
        store_changes(connection, run["id"], pending)


def _order(
    connection: Connection, run: RowMapping, until_step: int | None, now: float
) -> None:
    """Stores the order, and queues a paused run without a process if it continues."""
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
    """Returns the visitor's orders for a run."""
    columns = (runs.c.until_step, runs.c.changes)
    run = connection.execute(select(*columns).where(runs.c.id == run_id)).one_or_none()
    waits = bool(connection.scalar(select(exists().where(runs.c.state == QUEUED))))
    if run is None:
        return PauseOrder(None, {}, waits)
    changes = json.loads(run.changes or "{}")
    further = changes.pop(FURTHER, None)
    return PauseOrder(run.until_step, changes, waits, further)
