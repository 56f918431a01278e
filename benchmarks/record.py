"""Results as JSON, with the machine and the package versions."""

from __future__ import annotations

import json
import platform
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from dpsgd_explorer.training.cpu import kernels
from dpsgd_explorer.training.timing import machine

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "cryptography",
    "triton",
    "opacus",
    "dp-accounting",
    "prv-accountant",
)


def write(name: str, measured: dict[str, Any]) -> Path:
    """Write figures with the date and the environment; return the file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {"date": datetime.now(UTC).date().isoformat(), **origin(), **measured}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path


def update(name: str, rows: list[dict[str, Any]], *keys: str) -> Path:
    """Replace rows with equal values of ``keys``; return the file.

    Rows from another machine or other versions are deleted.
    """
    before: list[dict[str, Any]] = []
    if (RESULTS / f"{name}.json").exists():
        document = read(name)
        if all(document[part] == value for part, value in origin().items()):
            before = document["rows"]
    replaced = {_values(row, keys) for row in rows}
    rows = [row for row in before if _values(row, keys) not in replaced] + rows
    return write(name, {"probe": kernels.probe()._asdict(), "rows": rows})


def described(results: dict[str, Any]) -> str:
    """Return date, machine and versions of results as text."""
    machine = results["machine"]
    packages = ", ".join(f"{n} {v}" for n, v in results["versions"].items())
    threads = f"{results['threads']} thread" + "s" * (results["threads"] > 1)
    return (
        f"{results['date']}, {machine['cores']} cores of {machine['processor']} "
        f"({machine['instructions']}), {threads}; {packages}."
    )


def origin() -> dict[str, Any]:
    """Return the machine, versions and threads on which figures depend."""
    return {
        "machine": machine(),
        "versions": versions(),
        "threads": torch.get_num_threads(),
    }


def _values(row: dict[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)


def read(name: str) -> dict[str, Any]:
    """Return the figures of a file."""
    text = (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def versions() -> dict[str, str]:
    """Return {package: version} of the installed packages."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed
