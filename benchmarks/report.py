"""Writes the results into docs/explanation/performance.md, between its markers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from benchmarks import comparison, record, wall
from benchmarks.accelerator import tables as accelerator
from benchmarks.architectures.cases import ARCHITECTURES
from benchmarks.architectures.ways import NO_OPACUS
from benchmarks.architectures.ways import WAYS as ARCHITECTURE_WAYS
from benchmarks.models import CASES
from benchmarks.plot import line_plot
from benchmarks.site import hostile, opening
from benchmarks.ways import WAYS
from tools.marked_text import Cell, markdown_table, put, record_table

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
    """Update every generated part of the page for which there are results."""
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
        "main_thread": _main_thread,
        "distributed": _distributed,
    }
    for name, table in parts.items():
        if (record.RESULTS / f"{name}.json").exists():
            put(PAGE, name, table(record.read(name)))
    return PAGE


def _core(results: dict[str, Any]) -> str:
    rows = {(row["model"], row["way"]): row for row in results["rows"]}
    models = [name for name in CASES if (name, "ordinary") in rows]
    lines = []
    for way, (label, _) in WAYS.items():
        lines.append([label, *(_cell(rows.get((model, way), {})) for model in models)])
        if way == "hooks":
            floors = [rows.get((model, FLOOR), {}).get("ratio") for model in models]
            bars = [
                "–" if floor is None else f"{floor + ABOVE_FLOOR[model]:.2f}"
                for model, floor in zip(models, floors, strict=True)
            ]
            lines.append(["*to be at most*", *bars])
            firsts = [_first_step(rows.get((model, way), {})) for model in models]
            lines.append(["first step of hooks", *firsts])
        if way in BARS:
            bars = [f"{BARS[way][model]:.2f}" for model in models]
            lines.append(["*to be at most*", *bars])
    return _page(
        results, markdown_table(["step", *models], lines), _left_out(results["rows"])
    )


def _page(results: dict[str, Any], *parts: str) -> str:
    """Returns the origin of results, and below it the parts that are not empty."""
    return "\n\n".join([record.described(results), *filter(None, parts)])


def _cell(row: dict[str, Any]) -> str:
    if "ratio" not in row:
        return "–"
    memory = f"{row['extra_mib']:.0f}"
    if row["way"] == "ordinary":
        return f"{row['milliseconds']:.3g} ms / {memory}"
    return f"**{row['ratio']:.2f}** / {memory}"


def _first_step(row: dict[str, Any]) -> str:
    """Return the CPU time of a first step, relative to later ones, and its memory."""
    if "first_steps" not in row:
        return "–"
    return f"{row['first_steps']:.1f} steps / {row['first_mib']:.0f}"


def _left_out(rows: list[dict[str, Any]]) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if "skipped" in row:
            label = WAYS[row["way"]][0]
            reasons.setdefault(f"{label}: {row['skipped']}", []).append(row["model"])
    return "\n".join(
        f"- Not measured, {why} ({', '.join(models)})."
        for why, models in reasons.items()
    )


def _architectures(results: dict[str, Any]) -> str:
    rows = {(row["architecture"], row["way"]): row for row in results["rows"]}
    ways = [way for way in ARCHITECTURE_WAYS if way not in ("ordinary", "normals")]
    labels = [ARCHITECTURE_WAYS[way][0] for way in ways]
    lines = []
    for name, case in ARCHITECTURES.items():
        if (name, "ordinary") in rows:
            base = rows[name, "ordinary"]
            cells = [f"{base['trained']:,}", f"{base['seconds']:.2f}"]
            cells.append(f"{base['floor']:.2f} / {base['wall_floor']:.2f}")
            cells += [_beside(rows.get((name, way), {}), base) for way in ways]
            lines.append([case.label, *cells])
    reasons = {
        f"- Not measured, {ARCHITECTURES[row['architecture']].label}, "
        f"{ARCHITECTURE_WAYS[row['way']][0]}: {row['skipped']}."
        for row in results["rows"]
        if row.get("skipped", NO_OPACUS) != NO_OPACUS
    }
    models = markdown_table(
        ["model", "trained", "ordinary, s", "floor", *labels], lines
    )
    return _page(results, models, "\n".join(sorted(reasons)))


SPEED_WAYS = {"hooks": "this library, hooks", "opacus_hooks": "Opacus, hooks"}


def speed(results: dict[str, Any]) -> str:
    """Returns README's table: CPU time relative to the ordinary step, both measured."""
    rows = {(row["architecture"], row["way"]): row for row in results["rows"]}
    names = [
        name
        for name in ARCHITECTURES
        if all("ratio" in rows.get((name, way), {}) for way in SPEED_WAYS)
    ]
    libraries = [
        [label, *(f"{rows[name, way]['ratio']:.2f}" for name in names)]
        for way, label in SPEED_WAYS.items()
    ]
    models = [ARCHITECTURES[name].label for name in names]
    ratios = markdown_table(["library", *models], libraries)
    return f"{ratios}\n\n{record.described(results)}"


def _beside(row: dict[str, Any], ordinary: dict[str, Any]) -> str:
    """Return CPU time, wall time and memory relative to the ordinary step."""
    if "ratio" not in row:
        return "–"
    memory = row["extra_mib"] / ordinary["extra_mib"]
    return f"**{row['ratio']:.2f}** / {row['wall_ratio']:.2f} / {memory:.2f}"


def _accounting(results: dict[str, Any]) -> str:
    values = record_table(
        results["values"],
        ("method", "{method}"),
        ("median ms", lambda row: row.get("missing") or _figure(row["median_ms"])),
        ("longest ms", _figures("max_ms")),
        ("median excess", _figures("median_excess", 100, " %")),
        ("largest excess", _figures("max_excess", 100, " %")),
    )
    questions = [
        [name.removesuffix("_ms").replace("_", " "), f"{value:.0f}"]
        for name, value in results["questions"].items()
    ]
    header = ["question to the exact accountant", "ms"]
    return f"{values}\n\n{markdown_table(header, questions)}"


def _service(results: dict[str, Any]) -> str:
    ways = results["waited"]
    header = [title for way in ways for title in (f"{way}, median", "95 %")]
    rows = []
    for route in next(iter(ways.values())):
        times = [way[route] for way in ways.values()]
        cells = [
            _figure(each[name]) for each in times for name in ("median_ms", "p95_ms")
        ]
        rows.append([route, *cells])
    return markdown_table(["route", *header], rows)


def _overhead(results: dict[str, Any]) -> str:
    steps = record_table(
        results["rows"],
        ("layers", "{layers}"),
        ("ordinary step, ms", "{ordinary_ms:.2f}"),
        ("private step, ms", "{private_ms:.2f}"),
        ("added, ms", "{added_ms:.2f}"),
    )
    return _page(
        results,
        steps,
        f"One layer adds {results['first_layer_ms']:.2f} ms, to be at most "
        f"{results['allowed_first_layer_ms']:.2f}; a further one "
        f"{results['further_layer_ms']:.3f} ms, to be at most "
        f"{results['allowed_further_layer_ms']:.2f}.",
    )


def _widgets(results: dict[str, Any]) -> str:
    return record_table(
        results["rows"],
        ("widget", "{widget}"),
        ("control", "{control}"),
        ("median ms", _figures("median_ms")),
        ("longest ms", _figures("longest_ms")),
    )


def _first_point(results: dict[str, Any]) -> str:
    visits = record_table(
        results["rows"],
        ("profile", "{profile}"),
        ("the product is", "{product}"),
        ("run", "{run}"),
        ("at once", "{at_once}"),
        ("first point, s", "{first:.2f}"),
        ("of the last, s", "{last:.2f}"),
        ("unexplained, s", "{silence:.2f}"),
        ("CPU s a visitor", "{processor:.2f}"),
        ("cores of others", "{others:.2f}"),
    )
    return _page(results, visits)


def _trainer(results: dict[str, Any]) -> str:
    sliders = record_table(
        results["rows"],
        ("expected batch size", "{batch:,}"),
        ("slider to new ε, median ms", _figures("median_ms")),
        ("95 % within, ms", _figures("p95_ms")),
    )
    return _page(results, sliders)


def _main_thread(results: dict[str, Any]) -> str:
    opening, run = results["rows"]
    loads = [
        ["opening, without the script of Plotly", "–", *_longest(opening)],
        ["a run, with Plotly", f"{1 - run['busy_share']:.0%}", *_longest(run)],
    ]
    heads = ["situation", "CPU free", "longest task, CPU ms", "wall ms"]
    return _page(
        results,
        markdown_table(heads, loads),
        f"Plotly's script takes {opening['plotly_cpu_ms']:,.0f} ms of CPU when the "
        f"page opens. The run's chart of accuracy is drawn "
        f"{run['drawings_per_second']:.1f} times a second.",
    )


def _longest(row: dict[str, Any]) -> list[str]:
    return [_figure(row[name]) for name in ("longest_cpu_ms", "longest_wall_ms")]


def _figures(name: str, factor: float = 1, unit: str = "") -> Cell:
    """Returns a cell with a field as a figure; empty if a record has no such field."""
    return lambda row: _figure(factor * row[name]) + unit if name in row else ""


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
            parts.append(f"![{alt}]({os.path.relpath(path, PAGE.parent)})")
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
    sizes = record_table(
        document["rows"],
        ("workers", "{workers}"),
        ("launches/s", "{launches_a_second:.0f}"),
        ("other requests, ms: median", "{others_median_ms:.0f}"),
        ("95 %", "{others_p95_ms:.0f}"),
        ("streams open", "{listeners}"),
        ("first point, s: median of 4 at once", "{first_point_s:.1f}"),
        ("last", "{last_first_point_s:.1f}"),
        ("refused", "{refused}"),
    )
    return (
        f"{document['rows'][0]['launches']:,} launches, on {machine['cores']} cores of "
        f"{machine['processor']} which the clients share, {document['date']}:"
        f"\n\n{sizes}"
    )


def _distributed(results: dict[str, Any]) -> str:
    times = record_table(
        results["times"],
        ("processes", "{processes}"),
        ("step", "{way}"),
        ("wall ms", "{wall_ms}"),
        ("CPU ms a rank", "{cpu_ms}"),
        ("noise, CPU ms", lambda row: str(row.get("noise_ms", "–"))),
        ("speed-up", "{speedup:.2f}"),
        (
            "share of DDP's",
            lambda row: f"{row['share']:.0%}" if row["way"] == "private" else "–",
        ),
    )
    memory = record_table(
        results["memory"],
        ("processes", "{processes}"),
        ("model and sum, MiB a rank", "{stored_mib:.0f}"),
        ("first step, with the check", "{first_mib:.0f}"),
        ("steps after it", "{steps_mib:.0f}"),
    )
    return _page(results, times, memory)
