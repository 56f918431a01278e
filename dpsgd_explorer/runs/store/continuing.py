"""Continuation of finished runs: a new run takes over log, checkpoint and budget.

A run can be continued if it is done or its visitor stopped it.  The new run begins with
a copy of the log, without the ``end`` event, and with the last checkpoint if it was
stored.  Its process repeats the steps after the checkpoint and must reproduce the
copied log.  The number of further steps is an order.  The transaction that stores their
``phase`` event removes the order, so it is executed exactly once even if a process
dies.

A run is continued at most once: the budget of the earlier steps also covers the further
ones, and two continuations would each spend the rest.  A continuation that was stopped
before its first further step does not count: the earlier run is continued instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig, check_cost
from dpsgd_explorer.experiments.events import Changes, changes_of
from dpsgd_explorer.experiments.kinds import as_training, parse
from dpsgd_explorer.experiments.mid_run import FURTHER, along, not_continued
from dpsgd_explorer.identifiers import new_id
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store import admission, launching
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.pauses import own_run, store_changes
from dpsgd_explorer.runs.store.phases import phases_of_runs
from dpsgd_explorer.runs.store.schema import (
    CANCELLED,
    DONE,
    FINAL_STATES,
    checkpoints,
    events,
    runs,
)

# Kinds of events that a continuation copies from the earlier run.
COPIED_KINDS = ("phase", "step", "evaluation", "model", "microscope")


class Continuing:
    """Continues runs that are done or were stopped.

    Args:
        database: Database of the runs.
        clock: Returns unix seconds.
        quotas: Limits of visitors, networks and the site.
        cost_limit: Multiply-adds that a run may need, including the earlier steps.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        *,
        quotas: Quotas,
        cost_limit: float,
    ) -> None:
        self._database, self._clock = database, clock
        self._limits: dict[str, Any] = {"quotas": quotas, "cost_limit": cost_limit}

    def check(self, run_id: str, further_steps: int) -> None:
        """Raises ConfigError if a run cannot take ``further_steps`` more steps."""
        with self._database.read() as connection:
            run = connection.execute(_by_id(run_id)).mappings().one()
            longer = _longer(connection, run, further_steps)
        with _at_further_steps():
            check_cost(longer, self._limits["cost_limit"])

    def continuation_of(self, run_id: str) -> str:
        """Returns the id of the run that continues ``run_id``; "" without one."""
        with self._database.read() as connection:
            return _continuation(connection, run_id)

    def go_on(
        self, run_id: str, further_steps: int, *, visitor: str, network: str = ""
    ) -> str:
        """Queues a run that continues another one; returns its id.

        Args:
            run_id: A run of the visitor that is done or was stopped.
            further_steps: Number of further steps, at least 1; the budget may end the
                run earlier.
            visitor: Owner of the run.
            network: Network of the request; "" if no quota counts it.

        Raises:
            RunNotFoundError: The visitor has no such run.
            ConfigError: The run cannot be continued, or not by that number of steps.
            QuotaError, StorageFullError: See ``RunStore.create``.
        """
        child_id = new_id()
        launch = admission.Launch(
            run_id=child_id, visitor=visitor, network=network, group=""
        )
        with self._database.write() as connection:
            run = own_run(connection, run_id, visitor)
            longer, now = _longer(connection, run, further_steps), self._clock()
            with _at_further_steps():
                admission.admit(connection, longer, launch, now=now, **self._limits)
            config = longer.parse(json.loads(run["config"]))
            launching.write(
                connection, config, launch, name=run["name"], parent=run_id, now=now
            )
            _take_over(connection, run, child_id, longer.planned_steps)
            store_changes(connection, child_id, {FURTHER: further_steps})
        return child_id


@contextmanager
def _at_further_steps() -> Iterator[None]:
    """Reports errors about the total number of steps for ``further_steps``."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(FURTHER, str(error)) from None


def _by_id(run_id: str) -> Any:
    return select(runs).where(runs.c.id == run_id)


def _longer(connection: Connection, run: RowMapping, further_steps: int) -> RunConfig:
    """Returns the settings of a run with further steps, or raises ConfigError."""
    if further_steps < 1:
        raise ConfigError(
            FURTHER, f"{FURTHER} must be at least 1, got {further_steps}."
        )
    if run["state"] not in (DONE, CANCELLED):
        rule = "but only a run that is done or was stopped can be continued."
        raise not_continued(f"its state is {run['state']!r}, {rule}")
    if continuation := _continuation(connection, run["id"]):
        raise not_continued(
            f"run {continuation} already continues it. Continue that run: its budget "
            "covers all steps together."
        )
    settings = parse(json.loads(run["config"]))
    config = as_training(settings)
    if config is None:
        raise not_continued(settings.why_not_continued)
    changes = changes_of(phases_of_runs(connection, [run["id"]])[run["id"]])
    if reason := _why_nothing_began(run, changes):
        raise not_continued(reason)
    further = (run["step"], {FURTHER: further_steps})
    with _at_further_steps():
        longer, spending = along(config, [*changes, further])
    if spending.last <= run["step"]:
        raise not_continued(
            f"its budget for changes, ε = {config.filter_epsilon:g}, allows no further "
            "step. Start another run with a larger budget."
        )
    return longer


def _why_nothing_began(run: RowMapping, changes: Changes) -> str:
    """Returns why a run has no steps to continue from; "" if it has."""
    waits = FURTHER in json.loads(run["changes"] or "{}")
    begin = max([step for step, values in changes if FURTHER in values], default=-1)
    if waits or run["step"] <= begin:
        return (
            "it was stopped before its first further step. Continue the earlier run "
            "instead."
        )
    if run["step"] < 1:
        return "it was stopped before its first step. Start it again."
    return ""


def _continuation(connection: Connection, run_id: str) -> str:
    """Returns the id of the run that continues ``run_id``; "" without one.

    A continuation that was stopped before its first further step does not count: it
    has released nothing.
    """
    name, parent = f"%{FURTHER}%", runs.alias()
    logged = (
        select(events.c.id)
        .where(
            events.c.run_id == runs.c.id,
            events.c.kind == "phase",
            events.c.data.like(name),
        )
        .exists()
    )
    begun = select(parent.c.step).where(parent.c.id == run_id).scalar_subquery()
    query = select(runs.c.id).where(
        runs.c.parent == run_id,
        or_(runs.c.changes.like(name), logged),
        or_(runs.c.state.not_in(FINAL_STATES), runs.c.step > begun),
    )
    return connection.scalar(query.limit(1)) or ""


def _take_over(
    connection: Connection, run: RowMapping, child_id: str, steps: int
) -> None:
    """Copies log and checkpoint of ``run`` after the first event of ``child_id``."""
    place = func.row_number().over(order_by=events.c.seq)
    taken = (
        select(literal(child_id), place + 1, events.c.kind, events.c.data)
        .where(events.c.run_id == run["id"], events.c.kind.in_(COPIED_KINDS))
        .order_by(events.c.seq)
    )
    names = ("run_id", "seq", "kind", "data")
    connection.execute(insert(events).from_select(names, taken))
    newest = select(func.max(events.c.seq)).where(events.c.run_id == child_id)
    last_seq = connection.scalar(newest)
    before = (
        select(func.count() + 1)
        .where(
            events.c.run_id == run["id"],
            events.c.kind.in_(COPIED_KINDS),
            events.c.seq <= checkpoints.c.seq,
        )
        .scalar_subquery()
    )
    columns = (checkpoints.c.data, checkpoints.c.program)
    state = select(literal(child_id), before, *columns).where(
        checkpoints.c.run_id == run["id"]
    )
    names = ("run_id", "seq", "data", "program")
    connection.execute(insert(checkpoints).from_select(names, state))
    now = {"last_seq": last_seq, "step": run["step"], "steps": steps}
    connection.execute(update(runs).where(runs.c.id == child_id).values(**now))
