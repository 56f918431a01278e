"""``doctor``: checks the configuration of an installation, its services and safety."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.settings import Settings

HEALTHY, ILL = 0, 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per finding"
    )


def carry_out(options: argparse.Namespace) -> int:
    """Prints each finding; returns 1 if there is a fault, else 0."""
    from dpsgd_explorer.server.doctor import FAULT, Finding, examine

    try:
        findings = list(examine(Settings.from_environment()))
    except ConfigError as error:
        findings = [Finding("settings", FAULT, str(error))]
    for finding in findings:
        line = f"{finding.level:<8} {finding.part:<16} {finding.says}"
        print(json.dumps(asdict(finding)) if options.json else line)
    return ILL if any(finding.level == FAULT for finding in findings) else HEALTHY
