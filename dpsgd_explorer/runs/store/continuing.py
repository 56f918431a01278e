"""A run that is over goes on: another run takes over its log, its state and its budget.

It is done, or its visitor stopped it.  The new run begins with a copy of the log,
without its end, and with the last checkpoint if it was kept; its process repeats the
steps behind that, and must reproduce that log.  Its
order says how many steps follow: it is taken off in the transaction that stores their
``phase`` event, so no process that dies loses it or makes it twice.

A run is continued once: its further steps are counted against the budget of the steps
before them, and those of a second continuation would be too.  So a continuation that
was stopped before its first further step is not continued itself: its run is.
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

# Kinds of events that a run takes over from the one that it continues.
TAKEN_OVER = ("phase", "step", "evaluation", "model", "microscope")


class Continuing:
    """Continues runs that are done or were stopped."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        *,
        quotas: Quotas,
        cost_limit: float,
    ) -> None:
        """Do nothing yet.

        Args:
            database: Where the runs are.
            clock: Gives unix seconds.
            quotas: Limits of visitors, networks and the site.
            cost_limit: Multiply-adds that one run may need, with what it took over.
        """
        self._database, self._clock = database, clock
        self._limits: dict[str, Any] = {"quotas": quotas, "cost_limit": cost_limit}

    def check(self, run_id: str, further_steps: int) -> None:
        """Raise ConfigError if a run cannot take so many steps more, and say why."""
        with self._database.read() as connection:
            run = connection.execute(_by_id(run_id)).mappings().one()
            longer = _longer(connection, run, further_steps)
        with _at_further_steps():
            check_cost(longer, self._limits["cost_limit"])

    def continuation_of(self, run_id: str) -> str:
        """Return the id of the run that continues this one; "" if none does."""
        with self._database.read() as connection:
            return _continuation(connection, run_id)

    def go_on(
        self, run_id: str, further_steps: int, *, visitor: str, network: str = ""
    ) -> str:
        """Queue a run that takes so many steps more than this one; return its id.

        Args:
            run_id: A run of this visitor that is done or was stopped.
            further_steps: At least 1; the budget may end the run before them.
            visitor: Who asks.
            network: Network of the request; "" if no quota counts it.

        Raises:
            RunNotFoundError: it is not a run of this visitor.
            ConfigError: it cannot be continued, or not so far.
            QuotaError, StorageFullError: as ``RunStore.create``.
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
    """Name what was asked for in errors about the steps of the whole run."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(FURTHER, str(error)) from None


def _by_id(run_id: str) -> Any:
    return select(runs).where(runs.c.id == run_id)


def _longer(connection: Connection, run: RowMapping, further_steps: int) -> RunConfig:
    """Return the settings of a run with so many steps more, or raise ConfigError."""
    if further_steps < 1:
        raise ConfigError(
            FURTHER, f"{FURTHER} must be at least 1, got {further_steps}."
        )
    if run["state"] not in (DONE, CANCELLED):
        rule = "but only a run that is done or was stopped can be continued."
        raise not_continued(f"it is {run['state']}, {rule}")
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
    """Return why there is nothing of its own that a run could continue."""
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
    """Return the id of the run that continues another one; "" if none does.

    One that was stopped before its first further step has released nothing.
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
    """Copy log and checkpoint of a run behind the first event of another one."""
    place = func.row_number().over(order_by=events.c.seq)
    taken = (
        select(literal(child_id), place + 1, events.c.kind, events.c.data)
        .where(events.c.run_id == run["id"], events.c.kind.in_(TAKEN_OVER))
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
            events.c.kind.in_(TAKEN_OVER),
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
