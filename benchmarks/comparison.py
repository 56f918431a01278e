"""The tables of docs/explanation/comparison.md, from the results of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import peers, record
from benchmarks.architectures.cases import ARCHITECTURES
from benchmarks.models import CASES
from tools.marked_text import markdown_table, record_table

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "comparison.md"
WAYS = {
    "hooks": "this library",
    "opacus_hooks": "Opacus, hooks",
    "opacus_ghost": "Opacus, ghost",
}
ACCOUNTANTS = {
    "exact": "this library, exact (default)",
    "rdp": "this library, Rényi",
    "opacus prv": "Opacus, PRV (default)",
    "opacus rdp": "Opacus, Rényi",
    "dp-accounting rdp": "dp-accounting, Rényi (TF-Privacy)",
    "dp-accounting pld 1e-4": "dp-accounting, PLD, grid 1e-4 (jax-privacy)",
    "prv-accountant 0.1": 'prv-accountant, error 0.1 (FastDP, "glw", uses 0.05)',
}

Rows = dict[tuple[str, str], dict[str, Any]]


def parts() -> dict[str, str]:
    """Returns the text between each pair of markers of the page."""
    return {
        "architectures": _architectures(record.read("architectures")),
        "models": _models(record.read("core")),
        "accountants": _accountants(record.read("accounting")),
        "peers": peers.table(record.read("peers")),
    }


def _architectures(results: dict[str, Any]) -> str:
    rows = {(row["architecture"], row["way"]): row for row in results["rows"]}
    compared = {
        name: case.label
        for name, case in ARCHITECTURES.items()
        if "ratio" in rows.get((name, "opacus_hooks"), {})
    }
    return _table(results, rows, compared)


def _models(results: dict[str, Any]) -> str:
    rows = {(row["model"], row["way"]): row for row in results["rows"]}
    compared = {name: f"`{name}`" for name in CASES if (name, "hooks") in rows}
    better = "\n".join(_where_opacus_is_better(rows))
    return f"{_table(results, rows, compared)}\n\n{better}"


def _table(results: dict[str, Any], rows: Rows, labels: dict[str, str]) -> str:
    """Returns the table of some models, {name: label}."""
    lines = []
    for name, label in labels.items():
        base = rows[name, "ordinary"]["extra_mib"]
        lines.append([label, *(_cell(rows.get((name, way), {}), base) for way in WAYS)])
    ratios = markdown_table(["model", *WAYS.values()], lines)
    return f"{record.described(results)}\n\n{ratios}"


def _cell(row: dict[str, Any], base: float) -> str:
    if "ratio" not in row:
        return "–"
    return f"**{row['ratio']:.2f}** / {row['extra_mib'] / base:.2f}"


def _where_opacus_is_better(rows: Rows) -> list[str]:
    """Returns a line for time and one for memory, naming the models."""
    lines = []
    for key, label in (("ratio", "time"), ("extra_mib", "memory")):
        better = [
            f"`{name}`"
            for name in CASES
            if any(
                rows.get((name, way), {}).get(key, float("inf"))
                < rows[name, "hooks"][key]
                for way in ("opacus_hooks", "opacus_ghost")
            )
        ]
        lines.append(f"- Opacus needs less {label}: {', '.join(better) or 'no model'}.")
    return lines


def _accountants(results: dict[str, Any]) -> str:
    rows = {row["method"]: row for row in results["values"]}
    versions = ", ".join(f"{name} {v}" for name, v in results["versions"].items())
    times = record_table(
        [{"label": label, **rows[method]} for method, label in ACCOUNTANTS.items()],
        ("accountant", _accountant),
        ("median, ms", lambda row: _milliseconds(row["median_ms"])),
        ("longest, ms", lambda row: _milliseconds(row["max_ms"])),
        ("ε too large by, median", lambda row: f"{100 * row['median_excess']:.2g}%"),
        ("largest", "{max_excess:,.0%}"),
    )
    return f"{rows['exact']['settings']} settings; {versions}.\n\n{times}"


def _accountant(row: dict[str, Any]) -> str:
    failed = f"; fails on {len(row['failed'])} setting" if row["failed"] else ""
    return f"{row['label']}{failed}"


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
