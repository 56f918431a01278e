"""``database``: bring the tables up to this program's version, or say which they are.

An embedded file is brought up whenever it is opened; a server's database by this only,
so that its operator decides when.
"""

from __future__ import annotations

import argparse

from dpsgd_explorer.settings import Settings

OUTDATED = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "action",
        choices=("upgrade", "current"),
        help="upgrade: make the tables, or bring them up; current: say their version, "
        f"exit code {OUTDATED} if it is another than this program's",
    )


def carry_out(options: argparse.Namespace) -> int:
    """Do it, print what was done."""
    from dpsgd_explorer.runs.database.upgrade import COMMAND, NEWEST
    from dpsgd_explorer.runs.store.database import Database

    url = Settings.from_environment().database_url
    database = Database(url, on_open="look")
    before = database.revision()
    database.close()
    if options.action == "current":
        known = "no tables" if before is None else f"schema {before}"
        remedy = "up to date" if before == NEWEST else f"bring it up with: {COMMAND}"
        print(f"{known}, this program needs schema {NEWEST}: {remedy}")
        return 0 if before == NEWEST else OUTDATED
    Database(url, on_open="upgrade", answer_s=None).close()
    done = "made" if before is None else f"brought up from schema {before}"
    print(f"schema {NEWEST}: {'nothing to do' if before == NEWEST else done}")
    return 0
