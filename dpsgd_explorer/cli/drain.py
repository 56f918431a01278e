"""``drain``: returns all runs to the queue and starts none, before an upgrade."""

from __future__ import annotations

import argparse
import math
import time

from dpsgd_explorer.cli.site import settings_of_site

POLL_SECONDS = 0.2
NOT_DRAINED = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--resume",
        action="store_true",
        help="let runs start again after the upgrade; returned runs start first",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=60.0,
        help="wait at most this long for the workers (default: %(default)g); exit code "
        f"{NOT_DRAINED} if a run still trains",
    )


def seconds(text: str) -> float:
    """Reads a number of seconds.

    Raises:
        ArgumentTypeError: the text is not a number, or it is below 0.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(
            f"must be a number of seconds, 0 or more, got {text!r}"
        )
    return number


def carry_out(options: argparse.Namespace) -> int:
    """Stops all runs or lets them start, waits, prints the result; returns the code."""
    from dpsgd_explorer.runs.operation.fleet import Fleet
    from dpsgd_explorer.runs.store.store import RunStore

    store = RunStore.from_settings(settings_of_site())
    fleet = Fleet(store.database, store.clock)
    try:
        if options.resume:
            fleet.resume_queue()
            print("runs start again")
            return 0
        fleet.drain()
        end = time.monotonic() + options.seconds
        while (held := store.leases.held()) and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
        queued = store.counts()["queued"]
    finally:
        store.database.close()
    if held:
        print(f"{held} runs still train after {options.seconds:g} seconds; try again")
        return NOT_DRAINED
    print(f"no run trains, {queued} are queued; after the upgrade: drain --resume")
    return 0
