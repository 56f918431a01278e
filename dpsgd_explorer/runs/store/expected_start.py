"""In about how many seconds a queued run starts.

A simulation lets the training runs end and the queued ones start, in the order of
``fair_queue``, on all workers.  A run is assumed to need its declared cost over the
median speed of the last runs of its kind.  A training run continues at a pace between
that and its own so far, weighted by the share of its steps that is done.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy import Connection, RowMapping, func, select

from dpsgd_explorer.runs.store import fair_queue
from dpsgd_explorer.runs.store.schema import DONE, QUEUED, RUNNING, launches, runs
from dpsgd_explorer.runs.store.site import orders

RECENT = 15  # runs of a kind that the median speed is taken over


@dataclass(frozen=True)
class RemainingRun:
    """The rest of a run.

    Attributes:
        seconds: Remaining time on a worker; None if it is unknown.
    """

    run_id: str
    visitor: str
    seconds: float | None


NO_RUN = RemainingRun("", "", None)


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
        None if the run is not queued, if the operator paused the queue, or if no run of
        the kind of one that comes before it was done within the time that launches are
        remembered.
    """
    if orders.queue_paused_at(connection) is not None:
        return None
    queue, training = _waiting_and_training(connection, now)
    if all(run.run_id != run_id for run in queue):
        return None
    for start, run in _starts(queue, training, workers, running_per_visitor):
        if run.run_id == run_id:
            return start
    return None


def expected_end_seconds(
    connection: Connection,
    run_ids: Collection[str],
    *,
    workers: int,
    running_per_visitor: int | None,
    now: float,
) -> float | None:
    """Return in about how many seconds the last of some runs ends.

    Arguments are those of ``expected_start_seconds``.

    Returns:
        0 if all have ended; None if it is unknown.
    """
    queue, training = _waiting_and_training(connection, now)
    missing = {run.run_id for run in queue if run.run_id in run_ids}
    ends = [run.seconds for run in training if run.run_id in run_ids]
    for start, run in _starts(queue, training, workers, running_per_visitor):
        if not missing:
            break
        if run.run_id in missing:
            missing.remove(run.run_id)
            ends.append(None if run.seconds is None else start + run.seconds)
    known = [end for end in ends if end is not None]
    if missing or len(known) < len(ends):
        return None
    return max(known, default=0.0)


def _waiting_and_training(
    connection: Connection, now: float
) -> tuple[list[RemainingRun], list[RemainingRun]]:
    """Return the queued runs, the next one first, and those that train."""
    rows = {row["id"]: row for row in _unfinished(connection)}
    kinds = {row["kind"] for row in rows.values()}
    speeds = {kind: _speed(connection, kind) for kind in kinds}
    remaining = {
        run: _remaining(row, speeds[row["kind"]], now) for run, row in rows.items()
    }
    queue = [remaining[run] for run in fair_queue.in_order(connection)]
    training = [remaining[run] for run, row in rows.items() if row["state"] == RUNNING]
    return queue, training


def _starts(
    queue: list[RemainingRun],
    training: list[RemainingRun],
    workers: int,
    limit: int | None,
) -> Iterator[tuple[float, RemainingRun]]:
    """Simulate: yield the queued runs as they start, and in how many seconds.

    It stops where the next start depends on a time that is unknown.
    """
    if any(run.seconds is None for run in training):
        return
    now, ends = 0.0, [(run.seconds or 0.0, run.visitor) for run in training]
    heapq.heapify(ends)
    queue = list(queue)
    while queue:
        first = _first_to_start(queue, ends, workers, limit)
        if first is NO_RUN:
            now, _ = heapq.heappop(ends)
            continue
        yield now, first
        if first.seconds is None:
            return
        queue.remove(first)
        heapq.heappush(ends, (now + first.seconds, first.visitor))


def _first_to_start(
    queue: list[RemainingRun],
    ends: list[tuple[float, str]],
    workers: int,
    limit: int | None,
) -> RemainingRun:
    if len(ends) >= workers:
        return NO_RUN
    running = Counter(visitor for _, visitor in ends)
    for run in queue:
        if limit is None or running[run.visitor] < limit:
            return run
    return NO_RUN


def _unfinished(connection: Connection) -> Sequence[RowMapping]:
    columns = ("id", "kind", "state", "visitor", "step", "steps", "started_at")
    query = (
        select(*(runs.c[name] for name in columns), launches.c.cost)
        .outerjoin(launches, runs.c.id == launches.c.run_id)
        .where(runs.c.state.in_((QUEUED, RUNNING)))
    )
    return connection.execute(query).mappings().all()


def _speed(connection: Connection, kind: str) -> float | None:
    """Return the median cost per second of the last runs of a kind."""
    cost = launches.c.cost * runs.c.step / func.nullif(runs.c.steps, 0)
    speed = cost / (runs.c.ended_at - runs.c.started_at)
    query = (
        select(speed)
        .join_from(launches, runs, runs.c.id == launches.c.run_id)
        .where(runs.c.kind == kind, runs.c.state == DONE, cost > 0)
        .where(runs.c.ended_at > runs.c.started_at)
        .order_by(runs.c.ended_at.desc())
        .limit(RECENT)
    )
    speeds = [float(run) for run in connection.scalars(query)]
    return median(speeds) if speeds else None


def _remaining(row: RowMapping, speed: float | None, now: float) -> RemainingRun:
    """Return the rest of a run.

    A share f of its steps took e seconds; the whole usually takes u.  Its pace for the
    whole is f (e/f) + (1 - f) u, and a share 1 - f remains.
    """
    seconds = None
    if speed is not None and row["cost"] is not None:
        remaining_share = 1 - row["step"] / row["steps"]
        usual = row["cost"] / speed
        passed = max(0.0, now - row["started_at"]) if row["state"] == RUNNING else 0.0
        seconds = remaining_share * (passed + remaining_share * usual)
    return RemainingRun(row["id"], row["visitor"], seconds)
