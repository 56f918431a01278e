"""Results as JSON, with what is needed to read them later."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from dpsgd_explorer.dp.kernels import cpu as kernels
from dpsgd_explorer.training.timing import machine

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "numpy", "opacus")


def update(name: str, rows: list[dict[str, Any]], *keys: str) -> Path:
    """Write rows in place of those with the same values of ``keys``; return the file.

    What was measured elsewhere, or with other versions, is dropped.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    origin = {
        "machine": machine(),
        "versions": versions(),
        "threads": torch.get_num_threads(),
    }
    kept = []
    if path.exists():
        before = read(name)
        new = {_values(row, keys) for row in rows}
        if all(before[part] == own for part, own in origin.items()):
            kept = [row for row in before["rows"] if _values(row, keys) not in new]
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        **origin,
        "probe": kernels.probe()._asdict(),
        "rows": kept + rows,
    }
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path


def _values(row: dict[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)


def read(name: str) -> dict[str, Any]:
    """Return what ``update`` wrote."""
    text = (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def versions() -> dict[str, str]:
    """Return {package: version} of those that are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
