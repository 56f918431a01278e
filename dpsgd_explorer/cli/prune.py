"""``prune``: deletes old runs and shrinks the database."""

from __future__ import annotations

import argparse
import math

from dpsgd_explorer.cli.flags import number
from dpsgd_explorer.cli.site import settings_of_site
from dpsgd_explorer.errors import ConfigError

MIB = 2**20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--days",
        type=number,
        help="delete the runs that ended more than DAYS days ago; 0 deletes all runs "
        "that have ended (default: DPSGD_RETENTION_DAYS)",
    )


def carry_out(options: argparse.Namespace) -> int:
    """Deletes runs, shrinks the database, prints the result; returns the exit code."""
    from dpsgd_explorer.runs.store import retention
    from dpsgd_explorer.runs.store.store import RunStore

    settings = settings_of_site()
    days = settings.keep_days if options.days is None else options.days
    if days is None or not 0 <= days < math.inf:
        raise ConfigError(
            "--days",
            "--days must be a number of days, 0 or more, got "
            f"{'nothing, and DPSGD_RETENTION_DAYS is none' if days is None else days}.",
        )
    store = RunStore.from_settings(settings)
    runs, size = sum(store.counts().values()), store.database.size
    while retention.step(store, days):
        pass
    store.database.compact()
    remaining = sum(store.counts().values())
    freed = max(0, size - store.database.size) / MIB
    store.database.close()
    print(f"{runs - remaining} runs deleted, {remaining} left; {freed:.1f} MiB freed")
    return 0
