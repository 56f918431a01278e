"""``dpsgd data fetch``: download a data set that is not in the package."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.settings import DataSources


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    text = "Download a data set and check its files by their sha256."
    fetch = actions.add_parser("fetch", help=text, description=text)
    fetch.add_argument(
        "name", metavar="NAME", help="name of the data set, for example mnist"
    )
    fetch.add_argument(
        "--data",
        metavar="DIR",
        help="folder for it; by default DPSGD_DATA_DIR, or the user's cache, which "
        "every command searches",
    )


def carry_out(options: argparse.Namespace) -> int:
    """Downloads missing files, and checks the sha256 of all files."""
    # Imported here, because every command builds this parser, and most commands do not
    # need the experiments.
    from dpsgd_explorer.experiments.data_files.fetched import target
    from dpsgd_explorer.experiments.data_files.sets import FETCHED
    from dpsgd_explorer.training.datasets.download import read

    if options.name not in FETCHED:
        raise ConfigError(
            "name", f"NAME must be one of {', '.join(FETCHED)}, got {options.name!r}."
        )
    data, sources = FETCHED[options.name], DataSources.from_environment()
    missing = data.missing(sources)
    for file in data.files:
        read(data, file, sources)
    folder: Path = target(data.files[0], sources).parent
    if missing:
        print(f"{data.label}: downloaded {len(missing)} files to {folder}.")
    else:
        print(f"{data.label}: all {len(data.files)} files are on this machine.")
    return 0
