"""Replacement of a run that a later version of the program cannot resume.

The logged steps are released results, and repeating them could draw their noise a
second time.  Therefore the run ends with its log and its ε unchanged, and a new run
with the same settings is queued.
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
TITLE_NUMBER = re.compile(
    r" \(\d+\)$"
)  # the number that labels.distinct_title appends to a title
COPIED_COLUMNS = ("kind", "visitor", "name", "group", "note", "starred", "config")


def begin_again(connection: Connection, run: RowMapping, now: float) -> str:
    """Ends a running run and queues a new one with the same settings.

    No run is queued if the visitor stopped, deleted, changed or continued the run.  The
    message then advises the visitor to start the run again.

    Returns:
        Id of the new run; "" if none was queued.
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
    """Queues a run of the same launch, which no quota counts; returns its id."""
    next_id = new_id()
    values = {name: run[name] for name in COPIED_COLUMNS} | {
        "id": next_id,
        "parent": run["id"],
        "state": QUEUED,
        "steps": parse(json.loads(run["config"])).planned_steps,
        "created_at": now,
        "last_seq": 1,
    }
    connection.execute(insert(runs).values(values))
    if run["title"]:
        title = TITLE_NUMBER.sub("", run["title"])
        config = json.loads(run["config"])
        labels.entitle(connection, next_id, run["visitor"], title, config)
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
