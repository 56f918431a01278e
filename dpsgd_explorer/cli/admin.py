"""``admin``: prints a link that signs a browser in as the operator."""

from __future__ import annotations

import argparse

from dpsgd_explorer.settings import Settings


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--site",
        help="address of the site, such as https://dp.example.org (default: HOST "
        "and PORT)",
    )


def carry_out(options: argparse.Namespace) -> int:
    """Prints the link."""
    from dpsgd_explorer.server.operator_link import MINUTES, operator_link

    print(operator_link(Settings.from_environment(creates_folder=False), options.site))
    print(f"Open it once, within {MINUTES} minutes: it signs the operator in.")
    return 0
