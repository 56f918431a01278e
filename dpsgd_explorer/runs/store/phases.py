"""Reads the ``phase`` events of several runs, which describe the use of records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from dpsgd_explorer.runs.store.schema import events


def phases_of_runs(
    connection: Connection, run_ids: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """Returns {run id: data of the ``phase`` events in order}."""
    query = (
        select(events.c.run_id, events.c.data)
        .where(events.c.run_id.in_(run_ids), events.c.kind == "phase")
        .order_by(events.c.run_id, events.c.seq)
    )
    phases: dict[str, list[dict[str, Any]]] = {run_id: [] for run_id in run_ids}
    for run_id, data in connection.execute(query):
        phases[run_id].append(json.loads(data))
    return phases
