"""JSON files with the recorded figures of pages, and the versions that created them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from dpsgd_explorer import __version__

FOLDER = Path(__file__).parents[2] / "dpsgd_explorer" / "web" / "recorded"


def versions() -> dict[str, str]:
    """Return the versions of packages that recorded figures may depend on."""
    return {"version": __version__, "torch": torch.__version__}


def write(
    name: str,
    stored: dict[str, Any],
    *,
    folder: Path = FOLDER,
    indent: int | None = None,
) -> None:
    """Write figures to the JSON file of a name.

    Args:
        name: Path below the folder, without suffix.
        stored: Finite numbers, texts, lists and dicts.
        folder: Folder of the file.
        indent: Spaces per level, for a file that people read; None for one line.

    Raises:
        ValueError: a number is not finite.
    """
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(stored, allow_nan=False, indent=indent)
    path.write_text(text + "\n", encoding="utf-8")
