"""The tables of ``benchmarks accelerator`` for docs/explanation/performance.md."""

from __future__ import annotations

from typing import Any

from benchmarks import record
from benchmarks.accelerator.cases import CASES, parameters
from benchmarks.accelerator.ways import FEATURES, OURS, PEERS, WAYS
from tools.marked_text import markdown_table, record_table

Row = dict[str, Any]

NO_PEERS = (
    "Opacus and FastDP have not been measured on a GPU yet, nor the other models of "
    "`python -m benchmarks accelerator --peers`."
)


def table(results: dict[str, Any]) -> str:
    """Return the results as the docs show them."""
    rows = [row for row in results["rows"] if "ratio" in row]
    parts = [
        f"{results['device']}; {record.described(results)} bfloat16 by autocast, fused "
        f"AdamW. Memory is {results['memory']}.",
        _ours([row for row in rows if row["way"] in OURS]),
        _peers([row for row in rows if row["parts"] == 1], results["largest"]),
        _features([row for row in rows if row["way"] in FEATURES]),
        "\n".join(_errors(results["rows"] + results["largest"])),
        _noise(results.get("noise", {})),
    ]
    return "\n\n".join(part for part in parts if part)


def _ours(rows: list[Row]) -> str:
    return record_table(
        rows,
        ("model", lambda row: CASES[row["model"]].label),
        ("parameters, million", lambda row: f"{parameters(row['model']) / 1e6:,.0f}"),
        ("samples", lambda row: f"{row['parts'] * row['samples']:,}"),
        ("physical batches", "{parts}"),
        ("ordinary, ms", "{ordinary_ms:.0f}"),
        ("private", "**{ratio:.3f}**"),
        ("quartiles", "{low:.3f} to {high:.3f}"),
        ("ordinary, GiB", "{ordinary_gib:.1f}"),
        ("private", "{gib:.1f}"),
        ("queued after, ms", "{queued_ms:.0f}"),
        ("waits", "{waits}"),
    )


def _peers(rows: list[Row], largest: list[Row]) -> str:
    """Return time, memory and largest batch of each library, by model."""
    found = {(row["model"], row["way"]): row for row in rows}
    batches = {(row["model"], row["way"]): row for row in largest if "batch" in row}
    if not any(way in PEERS for _, way in (*found, *batches)):
        return NO_PEERS
    ways = {**OURS, **PEERS}
    lines = []
    for name, case in CASES.items():
        cells = [
            _cell(found.get((name, way)), batches.get((name, way))) for way in ways
        ]
        ordinary = _batch(batches.get((name, "ordinary")))
        lines.append([case.label, ordinary, *cells])
    head = ["model", "ordinary, largest batch", *(way.label for way in ways.values())]
    return (
        "Time / memory as a ratio to the ordinary step, and the largest batch that "
        f"fits:\n\n{markdown_table(head, lines)}"
    )


def _cell(row: Row | None, batch: Row | None) -> str:
    if row is None and batch is None:
        return "–"
    ratios = "–"
    if row is not None:
        memory = row["gib"] / row["ordinary_gib"] if row["ordinary_gib"] else None
        ratios = f"**{row['ratio']:.2f}** / " + (f"{memory:.2f}" if memory else "–")
    return f"{ratios}, {_batch(batch)}"


def _batch(row: Row | None) -> str:
    if row is None:
        return "–"
    return f"{row['batch']:,}" + (" or more" if row["is_limit"] else "")


def _features(rows: list[Row]) -> str:
    """Return what some ways cost with one model."""
    if not rows:
        return ""
    return record_table(
        [row for row in rows if row["parts"] == 1],
        ("model", lambda row: CASES[row["model"]].label),
        ("private step with", lambda row: WAYS[row["way"]].label),
        ("to the ordinary step", "**{ratio:.3f}**"),
        ("quartiles", "{low:.3f} to {high:.3f}"),
        ("waits", "{waits}"),
    )


def _errors(rows: list[Row]) -> list[str]:
    """Return a line for each model and method without figures."""
    lines = [
        f"- {CASES[row['model']].label}, {WAYS[row['way']].label}: {row['skipped']}"
        for row in rows
        if "skipped" in row and row["way"] in WAYS
    ]
    return list(dict.fromkeys(lines))


def _noise(noise: dict[str, float]) -> str:
    if "secure" not in noise:
        return ""
    ps = {name: 1e3 * value for name, value in noise.items()}
    return (
        f"A number of secure noise, drawn, added and rounded, takes "
        f"{ps['secure']:.1f} ps; one of torch's {ps['normal']:.1f} ps, and "
        f"{ps['normal_added']:.1f} ps where it is added."
    )
