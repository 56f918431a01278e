"""Figures that this code recorded once and that ship with it: ``recorded/<name>.json``.

The commands of ``tools/record`` write them.  A widget's figures, of its ``record.py``,
are in ``recorded.json`` in its folder.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from dpsgd_explorer.errors import DataError

FOLDER = Path(__file__).parent


@cache
def recording(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return what a file holds.

    Args:
        name: Path below the folder, without its ending, such as "choices/sweep".
        folder: Folder of the file.

    Raises:
        DataError: there is no such file.
    """
    path = folder / f"{name}.json"
    if not path.is_file():
        raise DataError(
            f"there is no recording {name!r} in {folder.name}/; a command of "
            "tools/record, or record.py of a widget, makes it."
        )
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
