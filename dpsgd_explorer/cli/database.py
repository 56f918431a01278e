"""``database``: migrates the tables, prints their version, or backs them up.

The site migrates a SQLite file when it opens the file. Only ``upgrade`` migrates a
server's database, so that its operator decides when; ``current`` migrates nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dpsgd_explorer.cli.site import settings_of_site
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.settings import Settings

OUTDATED = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "action",
        choices=("upgrade", "current", "backup"),
        help="upgrade: create or migrate the tables; current: print their version, "
        f"exit code {OUTDATED} if this program needs another; backup: copy a SQLite "
        "database to FILE, while the site runs",
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="file that the backup is written to"
    )


def carry_out(options: argparse.Namespace) -> int:
    """Does the action and prints its result; returns the exit code."""
    from dpsgd_explorer.runs.database.backup import back_up
    from dpsgd_explorer.runs.database.upgrade import COMMAND, NEWEST
    from dpsgd_explorer.runs.store.database import Database

    if (options.action == "backup") != (options.file is not None):
        raise ConfigError(
            "FILE", "FILE must be given with backup, and with no other action."
        )
    makes = options.action == "upgrade"
    settings = Settings.from_environment() if makes else settings_of_site()
    url = settings.database_url
    if options.action == "backup":
        size = back_up(url, Path(options.file).resolve())
        print(f"{options.file}: {size / 2**20:.1f} MiB")
        return 0
    database = Database(url, on_open="look")
    before = database.revision()
    database.close()
    if options.action == "current":
        present = "no tables" if before is None else f"schema {before}"
        remedy = "up to date" if before == NEWEST else f"migrate with: {COMMAND}"
        print(f"{present}, this program needs schema {NEWEST}: {remedy}")
        return 0 if before == NEWEST else OUTDATED
    Database(url, on_open="upgrade", answer_s=None).close()
    done = "created" if before is None else f"migrated from schema {before}"
    print(f"schema {NEWEST}: {'nothing to do' if before == NEWEST else done}")
    return 0
