"""``queue``: shows queue, workers and runs of a site, or pauses and resumes the queue.

The command reads and writes the database of the site, so it runs where the settings of
the site are.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpsgd_explorer.cli.site import settings_of_site

if TYPE_CHECKING:
    from dpsgd_explorer.runs.operation.fleet import Fleet

PAUSED_MESSAGE = (
    "No run starts until the queue is resumed. Runs that have started continue."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "action",
        choices=("status", "pause", "resume"),
        help="status: print queue, workers, unfinished runs and the busiest visitors; "
        "pause: start no run; resume: start runs again",
    )


def carry_out(options: argparse.Namespace) -> int:
    """Does the action and prints its result; returns the exit code."""
    from dpsgd_explorer.runs.operation.fleet import Fleet
    from dpsgd_explorer.runs.store.store import RunStore

    store = RunStore.from_settings(settings_of_site())
    fleet = Fleet(store.database, store.clock)
    try:
        if options.action == "pause":
            fleet.pause_queue()
            print(PAUSED_MESSAGE)
        elif options.action == "resume":
            fleet.resume_queue()
            print("Runs start again.")
        else:
            print("\n".join(_status(fleet)))
    finally:
        store.database.close()
    return 0


def alias(visitor: str) -> str:
    """Returns a short name for a visitor that reveals no cookie."""
    return hashlib.blake2b(visitor.encode(), digest_size=4).hexdigest()


def _status(fleet: Fleet) -> Iterator[str]:
    reading = fleet.read()
    state = "runs start as places become free"
    if all(worker.is_lost for worker in reading.workers):
        state = "no worker was seen lately, so no run starts"
    if reading.queue_paused_at is not None:
        state = f"paused since {_moment(reading.queue_paused_at)}, no run starts"
    yield f"Queue: {state}"
    oldest = f", the oldest for {reading.oldest_queued_s:.0f} s"
    yield f"  {reading.queued} queued{oldest if reading.queued else ''}"
    yield f"  {reading.runs['running']} training, {reading.runs['paused']} paused"
    yield f"  {reading.lease_losses} lost workers so far"
    yield ""
    yield from _table(
        "Workers",
        ("host", "version", "runs", "places", "since", "last seen"),
        [
            (
                worker.host,
                worker.version,
                f"{worker.busy}",
                f"{worker.places}",
                _moment(worker.started_at),
                f"{worker.seen_s:.0f} s ago" + (", lost" if worker.is_lost else ""),
            )
            for worker in reading.workers
        ],
    )
    yield ""
    yield from _table(
        "Unfinished runs",
        ("run", "kind", "state", "step", "launched", "visitor"),
        [
            (
                run.id,
                run.kind,
                run.state,
                f"{run.step} of {run.steps}",
                _moment(run.created_at),
                alias(run.visitor),
            )
            for run in fleet.unfinished()
        ],
    )
    yield ""
    yield from _table(
        "Busiest visitors, last 24 hours",
        ("visitor", "launches", "training", "queued"),
        [
            (
                alias(usage.visitor),
                f"{usage.launches}",
                f"{usage.running}",
                f"{usage.queued}",
            )
            for usage in fleet.usage()
        ],
    )


def _table(
    title: str, names: tuple[str, ...], rows: list[tuple[str, ...]]
) -> Iterator[str]:
    if not rows:
        yield f"{title}: none"
        return
    yield title
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for row in (names, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _moment(unix_seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(unix_seconds))
