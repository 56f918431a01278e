"""Puts the results into docs/explanation/performance.md, between its markers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import comparison, record, wall
from benchmarks.accelerator import measure as accelerator
from benchmarks.architectures.cases import ARCHITECTURES
from benchmarks.architectures.ways import NO_OPACUS
from benchmarks.architectures.ways import WAYS as ARCHITECTURE_WAYS
from benchmarks.models import CASES
from benchmarks.plot import line_plot
from benchmarks.site import hostile, opening
from benchmarks.ways import WAYS
from tools.marked_text import put

README = Path(__file__).parents[1] / "README.md"
DOCS = README.parent / "docs"
PAGE = DOCS / "explanation" / "performance.md"
HOSTS = DOCS / "how-to" / "operate" / "several-hosts.md"
PICTURES = DOCS / "pictures"

ABOVE_FLOOR = {
    "logreg": 0.30,
    "mlp": 0.30,
    "wide_mlp": 0.10,
    "cnn": 0.10,
    "cnn_cifar": 0.10,
    "lstm": 0.15,
    "transformer": 0.15,
}
"""Maximum overhead of a private step over the floor: ordinary step plus noise."""

BARS: dict[str, dict[str, float]] = {
    "hooks_kernels": {
        "logreg": 0.80,
        "mlp": 0.90,
        "wide_mlp": 0.75,
        "cnn": 0.80,
        "cnn_cifar": 1.00,
        "lstm": 1.05,
        "transformer": 1.00,
    },
}
"""Goal per way and model: time as a ratio to the ordinary step, torch's kernels."""

FLOOR = "ordinary_noise"

AXES = {
    "batch": "samples per batch (784-256-128-10 perceptron)",
    "width": "width of two hidden layers (batch 64)",
    "length": "length of sequences (transformer, batch 8)",
}


def write() -> Path:
    """Replace every marked part of the page for which there are results."""
    if (record.RESULTS / "architectures.json").exists():
        put(README, "speed", speed(record.read("architectures")))
    if (record.RESULTS / "fleet.json").exists():
        put(HOSTS, "fleet", _fleet(record.read("fleet")))
    for name, text in comparison.parts().items():
        put(comparison.PAGE, name, text)
    parts = {
        "core": _core,
        "wall": wall.table,
        "architectures": _architectures,
        "accelerator": accelerator.table,
        "growth": _growth,
        "accounting": _accounting,
        "overhead": _overhead,
        "service": _service,
        "opening": opening.table,
        "hostile": hostile.table,
        "first_point": _first_point,
        "widgets": _widgets,
        "trainer": _trainer,
        "distributed": _distributed,
    }
    for name, table in parts.items():
        if (record.RESULTS / f"{name}.json").exists():
            put(PAGE, name, table(record.read(name)))
    return PAGE


def _core(results: dict[str, Any]) -> str:
    rows = {(row["model"], row["way"]): row for row in results["rows"]}
    models = [name for name in CASES if (name, "ordinary") in rows]
    lines = ["| step | " + " | ".join(models) + " |", "|---|" + "---|" * len(models)]
    for way, (label, _) in WAYS.items():
        cells = [_cell(rows.get((model, way), {})) for model in models]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
        if way == "hooks":
            floors = [rows.get((model, FLOOR), {}).get("ratio") for model in models]
            bars = [
                "–" if floor is None else f"{floor + ABOVE_FLOOR[model]:.2f}"
                for model, floor in zip(models, floors, strict=True)
            ]
            lines.append("| *to be at most* | " + " | ".join(bars) + " |")
            firsts = [_first_step(rows.get((model, way), {})) for model in models]
            lines.append("| first step of hooks | " + " | ".join(firsts) + " |")
        if way in BARS:
            bars = [f"{BARS[way][model]:.2f}" for model in models]
            lines.append("| *to be at most* | " + " | ".join(bars) + " |")
    return "\n".join(
        [record.described(results), "", *lines, "", *_left_out(results["rows"])]
    )


def _cell(row: dict[str, Any]) -> str:
    if "ratio" not in row:
        return "–"
    memory = f"{row['extra_mib']:.0f}"
    if row["way"] == "ordinary":
        return f"{row['milliseconds']:.3g} ms / {memory}"
    return f"**{row['ratio']:.2f}** / {memory}"


def _first_step(row: dict[str, Any]) -> str:
    """Return the CPU time of a first step in later steps, and its peak memory."""
    if "first_steps" not in row:
        return "–"
    return f"{row['first_steps']:.1f} steps / {row['first_mib']:.0f}"


def _left_out(rows: list[dict[str, Any]]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if "skipped" in row:
            label = WAYS[row["way"]][0]
            reasons.setdefault(f"{label}: {row['skipped']}", []).append(row["model"])
    return [f"- Not measured, {why} ({', '.join(n)})." for why, n in reasons.items()]


def _architectures(results: dict[str, Any]) -> str:
    rows = {(row["architecture"], row["way"]): row for row in results["rows"]}
    ways = [way for way in ARCHITECTURE_WAYS if way not in ("ordinary", "normals")]
    labels = " | ".join(ARCHITECTURE_WAYS[way][0] for way in ways)
    lines = [
        record.described(results),
        "",
        f"| model | trained | ordinary, s | floor | {labels} |",
        "|---" * (4 + len(ways)) + "|",
    ]
    for name, case in ARCHITECTURES.items():
        if (name, "ordinary") in rows:
            base = rows[name, "ordinary"]
            cells = [f"{base['trained']:,}", f"{base['seconds']:.2f}"]
            cells.append(f"{base['floor']:.2f} / {base['wall_floor']:.2f}")
            cells += [_beside(rows.get((name, way), {}), base) for way in ways]
            lines.append(f"| {case.label} | " + " | ".join(cells) + " |")
    reasons = {
        f"- Not measured, {ARCHITECTURES[row['architecture']].label}, "
        f"{ARCHITECTURE_WAYS[row['way']][0]}: {row['skipped']}."
        for row in results["rows"]
        if row.get("skipped", NO_OPACUS) != NO_OPACUS
    }
    return "\n".join([*lines, *([""] if reasons else []), *sorted(reasons)])


SPEED_WAYS = {"hooks": "this library, hooks", "opacus_hooks": "Opacus, hooks"}


def speed(results: dict[str, Any]) -> str:
    """Returns the table of README: CPU time over the ordinary step's, both measured."""
    rows = {(row["architecture"], row["way"]): row for row in results["rows"]}
    names = [
        name
        for name in ARCHITECTURES
        if all("ratio" in rows.get((name, way), {}) for way in SPEED_WAYS)
    ]
    lines = [
        "| library | " + " | ".join(ARCHITECTURES[name].label for name in names) + " |",
        "|---" * (1 + len(names)) + "|",
    ]
    for way, label in SPEED_WAYS.items():
        ratios = [f"{rows[name, way]['ratio']:.2f}" for name in names]
        lines.append(f"| {label} | " + " | ".join(ratios) + " |")
    return "\n".join([*lines, "", record.described(results)])


def _beside(row: dict[str, Any], ordinary: dict[str, Any]) -> str:
    """Return CPU time, wall clock and memory of a way over the ordinary step's."""
    if "ratio" not in row:
        return "–"
    memory = row["extra_mib"] / ordinary["extra_mib"]
    return f"**{row['ratio']:.2f}** / {row['wall_ratio']:.2f} / {memory:.2f}"


def _accounting(results: dict[str, Any]) -> str:
    lines = [
        "| method | median ms | longest ms | median excess | largest excess |",
        "|---|---|---|---|---|",
    ]
    for row in results["values"]:
        if "missing" in row:
            lines.append(f"| {row['method']} | {row['missing']} | | | |")
            continue
        lines.append(
            f"| {row['method']} | {_figure(row['median_ms'])} "
            f"| {_figure(row['max_ms'])} | {_figure(100 * row['median_excess'])} % "
            f"| {_figure(100 * row['max_excess'])} % |"
        )
    lines += ["", "| question to the exact accountant | ms |", "|---|---|"]
    for name, value in results["questions"].items():
        label = name.removesuffix("_ms").replace("_", " ")
        lines.append(f"| {label} | {value:.0f} |")
    return "\n".join(lines)


def _service(results: dict[str, Any]) -> str:
    ways = results["waited"]
    lines = [
        "| route | " + " | ".join(f"{way}, median | 95 %" for way in ways) + " |",
        "|---" * (1 + 2 * len(ways)) + "|",
    ]
    for route in next(iter(ways.values())):
        cells = [
            f"{_figure(way[route]['median_ms'])} | {_figure(way[route]['p95_ms'])}"
            for way in ways.values()
        ]
        lines.append(f"| {route} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _overhead(results: dict[str, Any]) -> str:
    lines = [
        record.described(results),
        "",
        "| layers | ordinary step, ms | private step, ms | added, ms |",
        "|---|---|---|---|",
    ]
    for row in results["rows"]:
        times = [row[name] for name in ("ordinary_ms", "private_ms", "added_ms")]
        cells = " | ".join(f"{value:.2f}" for value in times)
        lines.append(f"| {row['layers']} | {cells} |")
    return "\n".join(
        [
            *lines,
            "",
            f"One layer adds {results['first_layer_ms']:.2f} ms, to be at most "
            f"{results['allowed_first_layer_ms']:.2f}; a further one "
            f"{results['further_layer_ms']:.3f} ms, to be at most "
            f"{results['allowed_further_layer_ms']:.2f}.",
        ]
    )


def _widgets(results: dict[str, Any]) -> str:
    lines = ["| widget | control | median ms | longest ms |", "|---|---|---|---|"]
    for row in results["rows"]:
        times = [_figure(row[name]) for name in ("median_ms", "longest_ms")]
        lines.append(" | ".join(["| " + row["widget"], row["control"], *times]) + " |")
    return "\n".join(lines)


def _first_point(results: dict[str, Any]) -> str:
    lines = [
        record.described(results),
        "",
        "| profile | the product is | run | at once | first point, s | of the last, s "
        "| unexplained, s | CPU s a visitor | cores of others |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    times = ("first", "last", "silence", "processor", "others")
    for row in results["rows"]:
        cells = [row["profile"], row["product"], row["run"], str(row["at_once"])]
        cells += [f"{row[name]:.2f}" for name in times]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _trainer(results: dict[str, Any]) -> str:
    run = results["run"]
    lines = [
        record.described(results),
        "",
        "| expected batch size | slider to new ε, median ms | 95 % within, ms |",
        "|---|---|---|",
    ]
    for row in results["rows"]:
        times = [_figure(row[name]) for name in ("median_ms", "p95_ms")]
        lines.append(f"| {row['batch']:,} | " + " | ".join(times) + " |")
    return "\n".join(
        [
            *lines,
            "",
            f"While a run is drawn: {run['updates_per_second']:.1f} updates a second, "
            f"main thread {run['busy_share']:.0%} busy, longest task "
            f"{run['longest_task_ms']:.0f} ms.",
        ]
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _growth(results: dict[str, Any]) -> str:
    parts = [record.described(results), ""]
    PICTURES.mkdir(exist_ok=True)
    for axis, label in AXES.items():
        for value, unit in (("milliseconds", "ms per step"), ("extra_mib", "MiB")):
            series = _series(results["rows"], axis, value)
            path = PICTURES / f"growth-{axis}-{value}.svg"
            path.write_text(line_plot(series, label, unit), encoding="utf-8")
            alt = f"{unit} against {label}: {', '.join(series)}"
            parts.append(f"![{alt}]({path.relative_to(DOCS).as_posix()})")
        parts.append("")
    return "\n".join(parts).rstrip()


def _series(
    rows: list[dict[str, Any]], axis: str, value: str
) -> dict[str, list[tuple[float, float]]]:
    """Return {way's label: [(size, value), ...]}."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["axis"] == axis and row.get(value, 0) > 0:
            label = WAYS[row["way"]][0]
            series.setdefault(label, []).append((row["size"], row[value]))
    return series


def _fleet(document: dict[str, Any]) -> str:
    """Return the sizing table of a site."""
    machine = document["machine"]
    rows = [
        f"| {row['workers']} | {row['launches_a_second']:.0f} "
        f"| {row['others_median_ms']:.0f} | {row['others_p95_ms']:.0f} "
        f"| {row['listeners']} | {row['first_point_s']:.1f} "
        f"| {row['last_first_point_s']:.1f} | {row['refused']} |\n"
        for row in document["rows"]
    ]
    return (
        f"{document['rows'][0]['launches']:,} launches, on {machine['cores']} cores of "
        f"{machine['processor']} which the clients share, {document['date']}:\n\n"
        "| workers | launches/s | other requests, ms: median | 95 % | streams open "
        "| first point, s: median of 4 at once | last | refused |\n"
        "|---|---|---|---|---|---|---|---|\n" + "".join(rows)
    )


def _distributed(results: dict[str, Any]) -> str:
    lines = [
        record.described(results),
        "",
        "| processes | step | wall ms | CPU ms a rank | noise, CPU ms | speed-up "
        "| share of DDP's |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["times"]:
        noise = row.get("noise_ms", "–")
        share = f"{100 * row['share']:.0f} %" if row["way"] == "private" else "–"
        times = f"{row['wall_ms']} | {row['cpu_ms']} | {noise} | {row['speedup']:.2f}"
        lines.append(f"| {row['processes']} | {row['way']} | {times} | {share} |")
    lines += [
        "",
        "| processes | model and sum, MiB a rank | first step, with the check "
        "| steps after it |",
        "|---|---|---|---|",
    ]
    for row in results["memory"]:
        stored, first = row["stored_mib"], row["first_mib"]
        figures = f"{stored:.0f} | {first:.0f} | {row['steps_mib']:.0f}"
        lines.append(f"| {row['processes']} | {figures} |")
    return "\n".join(lines)
