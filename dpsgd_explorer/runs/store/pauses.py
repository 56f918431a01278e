"""Orders of a visitor about a run that trains: a pause, single steps, other settings.

An order is a state and no message: ``until_step``, the number of the step after which
the run pauses, null to train to the end, and ``changes``, settings that hold from the
next step on; a run that continues another has ``further_steps`` there.  A worker reads
both between two steps.  They cannot be lost or carried out twice, whatever dies: a
change is taken off the order in the transaction that stores its ``phase`` event.

A paused run keeps its process and its lease for a while, so that the next step comes at
once.  It then gives both up, since other runs may need the place; its checkpoint stays,
and when it is resumed it goes to the front of the queue.
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
    """What a paused run's process reads.

    Attributes:
        until_step: The step after which it pauses; None: it trains to the end.
        changes: Settings that hold from the next step on.
        others_wait: Whether runs are queued.
        further_steps: Steps by which it goes on with what another run has done; None:
            it does not, or its log says so by now.
    """

    until_step: int | None
    changes: dict[str, Any]
    others_wait: bool
    further_steps: int | None = None

    def continues(self, step: int) -> bool:
        """Whether a run that has done so many steps is to go on."""
        return continues(self.until_step, step)


def continues(until_step: int | None, step: int) -> bool:
    """Whether a run that has done so many steps is to go on."""
    return until_step is None or until_step > step


class Pauses:
    """The orders of visitors; a run that has ended stays as it is."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        cost_limit: float = math.inf,
    ) -> None:
        """Do nothing yet.

        Args:
            database: Where the runs are.
            clock: Gives unix seconds.
            cost_limit: Multiply-adds that one run may need.
        """
        self._database, self._clock = database, clock
        self._cost_limit = cost_limit

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

    def change(self, run_id: str, visitor: str, values: Mapping[str, Any]) -> None:
        """Order other settings from the next step on; those in force undo an order.

        Raises:
            ConfigError: a value is outside its domain, or cannot be changed, or the run
                has ended.
        """
        with self._database.read() as connection:
            run = own_run(connection, run_id, visitor)
            config = config_now(connection, run)
        _check_goes_on(run, values)
        self._check_change(config, run["step"], values)
        with self._database.write() as connection:
            run = own_run(connection, run_id, visitor)
            _check_goes_on(run, values)
            asked = json.loads(run["changes"] or "{}") | dict(values)
            now = _config_in_force(connection, run).model_dump()
            waiting = {
                name: asked[name] for name in asked if asked[name] != now.get(name)
            }
            store_changes(connection, run_id, waiting)

    def config(self, run_id: str) -> RunConfig:
        """Return the settings of a run with its changes, also those that wait."""
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
    """Return a run of this visitor, or raise RunNotFoundError."""
    mine = (runs.c.id == run_id, runs.c.visitor == visitor)
    query = select(runs).where(*mine, runs.c.deleted_at.is_(None))
    run = connection.execute(query).mappings().one_or_none()
    if run is None:
        raise not_found(run_id)
    return run


def _check_goes_on(run: RowMapping, values: Mapping[str, Any]) -> None:
    if run["state"] in FINAL_STATES:
        field = next(iter(values), "")
        raise ConfigError(
            field,
            "the run has ended, so its settings no longer change. Continue it, or "
            "start another run with this setting.",
        )


def config_now(connection: Connection, run: RowMapping) -> RunConfig:
    """Return the settings of a run with its changes, also those that wait."""
    config = _config_in_force(connection, run)
    waiting = json.loads(run["changes"] or "{}")
    return config.after(run["step"], waiting) if waiting else config


def _config_in_force(connection: Connection, run: RowMapping) -> RunConfig:
    """Return the settings of a run with the changes that its log holds."""
    config = parse(json.loads(run["config"]))
    for step, values in changes_of(phases_of_runs(connection, [run["id"]])[run["id"]]):
        config = config.after(step, values)
    return config


def store_changes(
    connection: Connection, run_id: str, changes: Mapping[str, Any]
) -> None:
    """Store what a run is to change from its next step on."""
    text = to_json(changes) if changes else None
    connection.execute(update(runs).where(runs.c.id == run_id).values(changes=text))


def note_applied(
    connection: Connection, run: RowMapping, events: Sequence[Event]
) -> None:
    """Take the changes that these events record off the order."""
    applied: dict[str, Any] = {}
    for event in events:
        applied |= event.data.get("changes", {}) if event.kind == "phase" else {}
    if applied:
        asked = json.loads(run["changes"] or "{}")
        rest = {name: asked[name] for name in asked if asked[name] != applied.get(name)}
        store_changes(connection, run["id"], rest)


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
    columns = (runs.c.until_step, runs.c.changes)
    run = connection.execute(select(*columns).where(runs.c.id == run_id)).one_or_none()
    waits = bool(connection.scalar(select(exists().where(runs.c.state == QUEUED))))
    if run is None:
        return PauseOrder(None, {}, waits)
    changes = json.loads(run.changes or "{}")
    further = changes.pop(FURTHER, None)
    return PauseOrder(run.until_step, changes, waits, further)
