"""``runs``: ends a run of a site, for its operator."""

from __future__ import annotations

import argparse
import re

from dpsgd_explorer.cli.site import settings_of_site
from dpsgd_explorer.errors import ConfigError, RunNotFoundError

RUN_ID = re.compile("[A-Za-z0-9_-]{1,64}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "action",
        choices=("end",),
        help="end: stop the run for good; its visitor reads that the operator ended it",
    )
    parser.add_argument(
        "run", metavar="ID", help="id of the run, as in its address or queue status"
    )


def carry_out(options: argparse.Namespace) -> int:
    """Does the action and prints its result; returns the exit code."""
    from dpsgd_explorer.runs.operation.fleet import Fleet
    from dpsgd_explorer.runs.store.store import RunStore

    if not RUN_ID.fullmatch(options.run):
        raise ConfigError("ID", "ID must be the id of a run, as queue status shows it.")
    store = RunStore.from_settings(settings_of_site())
    try:
        run = Fleet(store.database, store.clock).end_run(options.run)
    except RunNotFoundError:
        raise RunNotFoundError(f"there is no run {options.run} on this site.") from None
    finally:
        store.database.close()
    print(f"run {run.id}: {run.state if run.has_ended else 'its worker ends it'}")
    return 0
