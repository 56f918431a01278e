"""Another run in place of one that a later program cannot resume.

The log of a run is a release, and its noise may have been drawn anew: the run ends with
its log and its ε as they are, and another one begins with the same settings.
"""

from __future__ import annotations

import json
import re

from sqlalchemy import Connection, RowMapping, insert, select

from dpsgd_explorer.experiments.kinds import parse
from dpsgd_explorer.identifiers import new_id
from dpsgd_explorer.runs.store import labels
from dpsgd_explorer.runs.store.phases import phases_of_runs
from dpsgd_explorer.runs.store.schema import INTERRUPTED, QUEUED, launches, runs
from dpsgd_explorer.runs.store.site import rosters
from dpsgd_explorer.runs.store.site.class_tables import class_runs
from dpsgd_explorer.runs.store.transitions import move, write_events

CODE = "upgraded"
REASON = (
    "The site was upgraded during the run, and the new program does not repeat the "
    "logged steps of the run. The log and its ε remain."
)
NUMBER = re.compile(r" \(\d+\)$")  # by which equal titles are told apart
SAME = ("kind", "visitor", "name", "group", "note", "starred", "config")


def begin_again(connection: Connection, run: RowMapping, now: float) -> str:
    """End a run that runs, queue another one; return the id of that, "" for none.

    None begins for a run that its visitor stopped or deleted, or that was changed or
    continued after its start: the visitor decides then.
    """
    changed = run["changes"] or any(
        "changes" in phase
        for phase in phases_of_runs(connection, [run["id"]])[run["id"]]
    )
    gone = run["cancel"] or run["deleted_at"] is not None
    next_id = "" if changed or gone else _queue_next(connection, run, now)
    advice = (
        "A new run with the same settings starts."
        if next_id
        else ("Start the run again.")
    )
    error = {"code": CODE, "message": f"{REASON} {advice}"}
    move(
        connection,
        run,
        INTERRUPTED,
        now,
        error=error | ({"run": next_id} if next_id else {}),
    )
    return next_id


def _queue_next(connection: Connection, run: RowMapping, now: float) -> str:
    """Queue a run of the same launch; no quota counts it."""
    next_id = new_id()
    values = {name: run[name] for name in SAME} | {
        "id": next_id,
        "parent": run["id"],
        "state": QUEUED,
        "steps": parse(json.loads(run["config"])).planned_steps,
        "created_at": now,
        "last_seq": 1,
    }
    connection.execute(insert(runs).values(values))
    if run["title"]:
        title = NUMBER.sub("", run["title"])
        labels.entitle(connection, next_id, run["visitor"], title)
    write_events(connection, next_id, 0, [("state", {"state": QUEUED})])
    launch = select(launches).where(launches.c.run_id == run["id"])
    for row in connection.execute(launch).mappings().all():
        values = {**row, "run_id": next_id, "cost": 0.0, "started": None}
        connection.execute(insert(launches).values(values))
    in_class = select(class_runs.c.class_id).where(class_runs.c.run_id == run["id"])
    for class_id in connection.scalars(in_class).all():
        connection.execute(insert(class_runs).values(run_id=next_id, class_id=class_id))
        rosters.changed(connection, class_id)
    return next_id
