"""Changes of a run together with its log, inside a caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from dpsgd_explorer.experiments.kinds import KINDS, parse
from dpsgd_explorer.runs.store import remains
from dpsgd_explorer.runs.store.schema import (
    CANCELLED,
    FINAL_STATES,
    MOVES,
    PAUSED,
    QUEUED,
    RUNNING,
    checkpoints,
    events,
    groups,
    runs,
    weights,
)
from dpsgd_explorer.runs.store.site import counters, orders, rosters
from dpsgd_explorer.runs.store.site.tables import ended_runs

Entry = tuple[str, Mapping[str, Any]]


def to_json(value: object) -> str:
    """Returns compact JSON text; NaN and infinity raise ValueError."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def write_events(
    connection: Connection, run_id: str, last_seq: int, entries: Sequence[Entry]
) -> int:
    """Appends entries after ``last_seq``; returns the new last sequence number."""
    rows = [
        {"run_id": run_id, "seq": last_seq + i, "kind": kind, "data": to_json(data)}
        for i, (kind, data) in enumerate(entries, start=1)
    ]
    if rows:
        connection.execute(insert(events), rows)
    return last_seq + len(rows)


def move(
    connection: Connection,
    run: RowMapping,
    state: str,
    now: float,
    *,
    error: dict[str, str] | None = None,
    **values: Any,
) -> None:
    """Changes the state of a run, and logs its first start, its pauses and its end.

    A return to the queue without a visitor's order is not logged: the log of a resumed
    run equals the log of an uninterrupted run.
    """
    assert state in MOVES[run["state"]], f"{run['state']} -> {state}"
    is_final = state in FINAL_STATES
    if state == CANCELLED:
        error = error or orders.reason_of(connection, run["id"])
    if is_final:
        counters.count(connection, counters.FINISHED, run["kind"], state)
        # Deleted first, so that a full disk has the space of the checkpoint.
        remains.leave_checkpoint(connection, run, state)
        values |= {"ended_at": now, "lease_until": None}
        values |= {"summary": to_json(summary(connection, run))}
    starts = state == RUNNING and run["started_at"] is None
    if is_final or _is_news(connection, run, state):
        data = {"state": state} | ({"error": error} if error else {})
        values["last_seq"] = write_events(
            connection, run["id"], run["last_seq"], [("state", data)]
        )
    if starts:
        values["started_at"] = now
    if error:
        values["error"] = to_json(error)
    connection.execute(
        update(runs).where(runs.c.id == run["id"]).values(state=state, **values)
    )


def _is_news(connection: Connection, run: RowMapping, state: str) -> bool:
    """Returns True if a state that is not final must be logged."""
    if state == QUEUED:
        return bool(run["state"] == PAUSED)
    query = (
        select(events.c.data)
        .where(events.c.run_id == run["id"], events.c.kind == "state")
        .order_by(events.c.seq.desc())
        .limit(1)
    )
    return bool(json.loads(connection.scalar(query) or "{}").get("state") != state)


def forget(connection: Connection, run_ids: Sequence[str]) -> None:
    """Deletes runs with their logs, checkpoints and weights, but not their launches.

    A group is deleted together with its last run.
    """
    rosters.forget_runs(connection, run_ids)
    of_these = select(runs.c.group).where(runs.c.id.in_(run_ids), runs.c.group != "")
    names = connection.scalars(of_these).all()
    for column in (
        events.c.run_id,
        checkpoints.c.run_id,
        weights.c.run_id,
        ended_runs.c.run_id,
        runs.c.id,
    ):
        connection.execute(delete(column.table).where(column.in_(run_ids)))
    left = select(runs.c.group).where(runs.c.group.in_(names))
    connection.execute(
        delete(groups).where(groups.c.id.in_(names), groups.c.id.not_in(left))
    )


def summary(connection: Connection, run: RowMapping) -> dict[str, Any]:
    """Returns the results of a run, each value from the newest event that contains it.

    A stopped run has no ``end`` event.  Its ε is then taken from the last step, and its
    measurements (``measured`` of its kind) from the last evaluation.
    """
    merged: dict[str, Any] = {"delta": json.loads(run["config"]).get("delta")}
    for data in _newest_of_each_kind(connection, run["id"]):
        merged |= data
    if "step" not in merged:
        return {}
    merged["steps"] = merged["step"]
    measured = KINDS[run["kind"]].measured
    names = ("epsilon", "delta", *measured, "steps", "seconds")
    results = {name: merged.get(name) for name in names}
    config = parse(json.loads(run["config"]))
    results["epsilon"] = config.guaranteed(results["epsilon"])
    audit = {"audit": merged["audit"]} if merged.get("audit") else {}
    return results | _status(connection, run["id"]) | audit


def _status(connection: Connection, run_id: str) -> dict[str, str]:
    """Returns the status of the run's ε, from the newest ``phase`` event."""
    query = (
        select(events.c.data)
        .where(events.c.run_id == run_id, events.c.kind == "phase")
        .order_by(events.c.seq.desc())
        .limit(1)
    )
    phase = json.loads(connection.scalar(query) or "{}")
    return {"status": phase["status"]} if "status" in phase else {}


def _newest_of_each_kind(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Returns the data of the last step, evaluation and end events, oldest first."""
    kinds = ("step", "evaluation", "end")
    newest = (
        select(func.max(events.c.seq))
        .where(events.c.run_id == run_id, events.c.kind.in_(kinds))
        .group_by(events.c.kind)
    )
    query = (
        select(events.c.data)
        .where(events.c.run_id == run_id, events.c.seq.in_(newest))
        .order_by(events.c.seq)
    )
    return [json.loads(data) for data in connection.scalars(query)]
