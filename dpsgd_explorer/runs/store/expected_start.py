"""In about how many seconds a queued run starts.

The runs that train are let end and those that wait are let start, in the order of
``waiting_line``, on as many workers as there are.  Each is taken to need its declared
cost over the median speed of the last runs of its kind; one that trains is taken to go
on at a pace between that and its own, nearer to its own the further it is.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy import Connection, RowMapping, select

from dpsgd_explorer.runs.store import fair_queue as waiting_line
from dpsgd_explorer.runs.store.schema import DONE, QUEUED, RUNNING, launches, runs

RECENT = 15  # runs of a kind whose speed counts


@dataclass(frozen=True)
class Work:
    """What is left of a run.

    Attributes:
        seconds: What it still takes on a worker; None if nobody can say.
    """

    run_id: str
    visitor: str
    seconds: float | None


NOBODY = Work("", "", None)


def expected_start_seconds(
    connection: Connection,
    run_id: str,
    *,
    workers: int,
    running_per_visitor: int | None,
    now: float,
) -> float | None:
    """Return in about how many seconds a queued run starts.

    Args:
        connection: An open transaction.
        run_id: The run.
        workers: Runs that train at the same time.
        running_per_visitor: Visitors with this many running runs wait; None: no limit.
        now: Unix seconds.

    Returns:
        None if the run is not queued, or if no run of the kind of one that comes before
        it was done within the time that launches are remembered.
    """
    places = waiting_line.in_order(connection)
    if run_id not in places:
        return None
    rows = {row["id"]: row for row in _unfinished(connection)}
    speeds = {kind: _speed(connection, kind) for kind in _kinds(rows.values())}
    works = {each: _work(row, speeds[row["kind"]], now) for each, row in rows.items()}
    line = [works[each] for each in places]
    training = [works[each] for each, row in rows.items() if row["state"] == RUNNING]
    return _start_of(run_id, line, training, workers, running_per_visitor)


def _start_of(
    run_id: str, line: list[Work], training: list[Work], workers: int, limit: int | None
) -> float | None:
    """Let runs end and start until this one starts; return when that is."""
    if any(each.seconds is None for each in training):
        return None
    now, ends = 0.0, [(each.seconds or 0.0, each.visitor) for each in training]
    heapq.heapify(ends)
    while (first := _first_to_start(line, ends, workers, limit)).run_id != run_id:
        if first is NOBODY:
            now, _ = heapq.heappop(ends)
        elif first.seconds is None:
            return None
        else:
            line.remove(first)
            heapq.heappush(ends, (now + first.seconds, first.visitor))
    return now


def _first_to_start(
    line: list[Work], ends: list[tuple[float, str]], workers: int, limit: int | None
) -> Work:
    if len(ends) >= workers:
        return NOBODY
    running = Counter(visitor for _, visitor in ends)
    for each in line:
        if limit is None or running[each.visitor] < limit:
            return each
    return NOBODY


def _unfinished(connection: Connection) -> Sequence[RowMapping]:
    columns = ("id", "kind", "state", "visitor", "step", "steps", "started_at")
    query = (
        select(*(runs.c[name] for name in columns), launches.c.cost)
        .outerjoin(launches, runs.c.id == launches.c.run_id)
        .where(runs.c.state.in_((QUEUED, RUNNING)))
    )
    return connection.execute(query).mappings().all()


def _kinds(rows: Iterable[RowMapping]) -> set[str]:
    return {row["kind"] for row in rows}


def _speed(connection: Connection, kind: str) -> float | None:
    """Return the median of what the last runs of a kind cost per second."""
    cost = launches.c.cost * runs.c.step / runs.c.steps
    speed = cost / (runs.c.ended_at - runs.c.started_at)
    query = (
        select(speed)
        .join_from(launches, runs, runs.c.id == launches.c.run_id)
        .where(runs.c.kind == kind, runs.c.state == DONE, cost > 0)
        .where(runs.c.ended_at > runs.c.started_at)
        .order_by(runs.c.ended_at.desc())
        .limit(RECENT)
    )
    speeds = [float(each) for each in connection.scalars(query)]
    return median(speeds) if speeds else None


def _work(row: RowMapping, speed: float | None, now: float) -> Work:
    """Return what is left of a run.

    A share f of its steps took e seconds; the whole usually takes u.  Its pace is
    f (e/f) + (1 - f) u for the whole, of which 1 - f is left.
    """
    seconds = None
    if speed is not None and row["cost"] is not None:
        left = 1 - row["step"] / row["steps"]
        usual = row["cost"] / speed
        passed = max(0.0, now - row["started_at"]) if row["state"] == RUNNING else 0.0
        seconds = left * (passed + left * usual)
    return Work(row["id"], row["visitor"], seconds)
