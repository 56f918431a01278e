"""The tables of docs/explanation/comparison.md, from the results of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import peers, record
from benchmarks.architectures.cases import ARCHITECTURES
from benchmarks.models import CASES

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
    lines = _head("model", results)
    for name, case in ARCHITECTURES.items():
        if "ratio" in rows.get((name, "opacus_hooks"), {}):
            base = rows[name, "ordinary"]["extra_mib"]
            cells = [_cell(rows.get((name, way), {}), base) for way in WAYS]
            lines.append(f"| {case.label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _models(results: dict[str, Any]) -> str:
    rows = {(row["model"], row["way"]): row for row in results["rows"]}
    lines = _head("model", results)
    for name in CASES:
        if (name, "hooks") in rows:
            base = rows[name, "ordinary"]["extra_mib"]
            cells = [_cell(rows.get((name, way), {}), base) for way in WAYS]
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *_where_opacus_is_better(rows)])


def _head(first: str, results: dict[str, Any]) -> list[str]:
    return [
        record.described(results),
        "",
        f"| {first} | " + " | ".join(WAYS.values()) + " |",
        "|---" * (1 + len(WAYS)) + "|",
    ]


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
    lines = [
        f"{rows['exact']['settings']} settings; {versions}.",
        "",
        "| accountant | median, ms | longest, ms | ε too large by, median | largest |",
        "|---|---|---|---|---|",
    ]
    for method, label in ACCOUNTANTS.items():
        row = rows[method]
        times = f"{_milliseconds(row['median_ms'])} | {_milliseconds(row['max_ms'])}"
        excess = f"{100 * row['median_excess']:.2g}% | {row['max_excess']:,.0%}"
        failed = f"; fails on {len(row['failed'])} setting" if row["failed"] else ""
        lines.append(f"| {label}{failed} | {times} | {excess} |")
    return "\n".join(lines)


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
