"""Chart and table of a comparison of the engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.engines_config import CONTENDERS, ORDINARY
from dpsgd_explorer.web.figures.svg import Picture, Plot

Data = dict[str, Any]

MIB = 2**20
WIDE, NARROW = (848, 330), (342, 380)
TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
HEAD = (
    "engine",
    "time, ms",
    "× ordinary",
    "middle half",
    "memory, MiB",
    "× ordinary",
    "difference",
)
NONE = "–"


def comparison_picture(phase: Data, evaluations: Sequence[Data]) -> Picture:
    """Returns the figure of time and memory of each engine.

    Args:
        phase: Data of the run's ``phase`` event.
        evaluations: Data of the run's ``evaluation`` events; the first is the
            ordinary step.
    """
    machine = phase["machine"]
    measured = [engine for engine in evaluations if not engine["refused"]]
    title = _conclusion([engine for engine in measured if engine["engine"] != ORDINARY])
    return Picture(
        title=title,
        sub="Time and peak memory of a step, divided by those of an ordinary step; "
        "logarithmic; line: middle half of the rounds",
        wide=_draw(evaluations, WIDE, title),
        narrow=_draw(evaluations, NARROW, title),
        head=HEAD,
        rows=tuple(_row(engine, evaluations[0]) for engine in evaluations),
        kind="recorded",
        note=f"CPU time of one thread, and memory that torch allocates, on "
        f"{machine['processor']} ({machine['instructions']}), torch "
        f"{machine['torch']}. Difference: the largest difference of any entry of the "
        "private gradient from that of an earlier engine, divided by the largest "
        "entry, in double precision and without noise.",
    )


def _conclusion(engines: Sequence[Data]) -> str:
    differences = [
        engine["difference"] for engine in engines if engine["difference"] is not None
    ]
    if not differences:
        return "Time and memory of each engine"
    largest = max(differences)
    by_time = sorted(engines, key=lambda engine: engine["ratio"])
    first, last = by_time[0], by_time[-1]
    return (
        f"{len(engines)} engines compute one gradient, within {largest:.0e} of its "
        f"largest entry; {first['engine']} is the fastest, {first['ratio']:.2f} × an "
        f"ordinary step, {last['engine']} the slowest, {last['ratio']:.2f} ×"
    )


def _row(engine: Data, ordinary: Data) -> tuple[str, ...]:
    if engine["refused"]:
        return (engine["engine"], "rejected", *[NONE] * (len(HEAD) - 2))
    difference = engine["difference"]
    return (
        engine["engine"],
        f"{engine['milliseconds']:.3g}",
        f"{engine['ratio']:.2f}",
        f"{engine['ratio_low']:.2f} to {engine['ratio_high']:.2f}",
        f"{engine['peak_bytes'] / MIB:.3g}",
        f"{engine['peak_bytes'] / ordinary['peak_bytes']:.2f}",
        NONE if difference is None else f"{difference:.1e}" if difference else "0",
    )


def _draw(evaluations: Sequence[Data], size: tuple[int, int], label: str) -> Markup:
    measured = [engine for engine in evaluations if not engine["refused"]]
    bytes_of = {engine["engine"]: engine["peak_bytes"] for engine in measured}
    memory = {name: size / bytes_of[ORDINARY] for name, size in bytes_of.items()}
    values = [*memory.values(), *(engine["ratio_high"] for engine in measured)]
    low, high = min(0.7, 0.8 * min(values)), max(3.0, 2.6 * max(values))
    rows = len(CONTENDERS)
    plot = Plot.framed(
        size, (low, high), (0, rows), left=92, right=16, top=8, log_x=True
    )
    ticks = [tick for tick in TICKS if low <= tick <= high]
    plot.x_axis([(tick, f"{tick:g}") for tick in ticks], "× the ordinary step")
    plot.path([(1, 0), (1, rows)], "axis")
    for row, name in enumerate(CONTENDERS):
        plot.text((low, rows - row - 0.5), name, "", "end", (-10, 5))
    for engine in evaluations:
        name = engine["engine"]
        middle = rows - CONTENDERS.index(name) - 0.5
        if engine["refused"]:
            plot.text((1, middle), "rejected", "budget halo", shift=(11, 5))
            continue
        words = ("time ", "memory ") if name == ORDINARY else ("", "")
        above, below = middle + 0.2, middle - 0.2
        ends = [(engine["ratio_low"], above), (engine["ratio_high"], above)]
        plot.line(ends, "s-private")
        plot.dot((engine["ratio"], above), "f-private")
        plot.text(
            ends[1], f"{words[0]}{engine['ratio']:.2f}", "private halo", shift=(11, 5)
        )
        plot.dot((memory[name], below), "f-twin")
        text = f"{words[1]}{memory[name]:.2f}"
        plot.text((memory[name], below), text, "twin halo", shift=(11, 5))
    return plot.svg(label)
