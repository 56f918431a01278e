"""How long the gradients of a recorded run are: measured, not private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.questions.rounding import limit, percent
from dpsgd_explorer.web.recorded.runs import RecordedRun

SHOWN_STEPS = (5, 10, 20)
# Ends of the classes of lengths in units of C; the recorded bins have an edge at each.
ENDS = (1, 10)
CLASSES = ("up to C: kept", "C to 10 C", "beyond 10 C")
FILLS = ("f-private", "f-attack soft", "f-attack")
ROOM = 0.08  # a smaller share has no room for its number


def lengths_picture(run: RecordedRun) -> Picture:
    """Return how long the gradients of several steps are, in units of C."""
    rows = [_Lengths.of(run, step) for step in _nearest(run.data("step"), SHOWN_STEPS)]
    bound = run.config.max_grad_norm
    first, last = rows[0], rows[-1]
    return Picture(
        title=(
            f"In step {first.step}, {percent(first.clipped, 0)} % of the gradients are "
            f"longer than C = {bound:g} and get shortened; in step {last.step}, "
            f"{percent(last.clipped, 0)} %"
        ),
        sub=(
            "Share of the drawn records, %, by the length of their gradient in units "
            f"of C; {run.config.data.label}, "
            f"ε = {limit(run.summary['epsilon'])} in the end"
        ),
        wide=_bars((904, 300), rows, narrow=False),
        narrow=_bars((342, 290), rows, narrow=True),
        head=("step", *(f"{name}, %" for name in CLASSES)),
        rows=tuple(
            (f"{row.step}", *(percent(share) for share in row.shares)) for row in rows
        ),
        kind="recorded",
        is_private=False,
        note="Lengths are measured without noise, to teach. They are no part of what "
        "the run releases.",
    )


@dataclass(frozen=True)
class _Lengths:
    """One step: share of its gradients in each class of lengths."""

    step: int
    clipped: float
    shares: tuple[float, ...]

    @classmethod
    def of(cls, run: RecordedRun, step: dict[str, Any]) -> _Lengths:
        diagnostics = step["diagnostics"]
        counts = diagnostics["norm_counts"]
        edges = run.data("phase")[0]["norm_edges"][1:-1]  # the outer bins have no end
        shorter = list(accumulate(counts))
        below = [shorter[_place(edges, end * run.config.max_grad_norm)] for end in ENDS]
        marks = [0, *below, shorter[-1]]
        shares = tuple((b - a) / shorter[-1] for a, b in pairwise(marks))
        return cls(step["step"], diagnostics["clipped_fraction"], shares)


def _place(edges: Sequence[float], length: float) -> int:
    """Return which edge of the bins is nearest to a length."""
    return min(range(len(edges)), key=lambda i: abs(edges[i] - length))


def _nearest(steps: list[Any], wanted: Sequence[int]) -> list[Any]:
    """Return the recorded steps nearest to the wanted ones, and the last."""
    distances = [[abs(step["step"] - number) for step in steps] for number in wanted]
    chosen = [steps[row.index(min(row))] for row in distances]
    return [*chosen, steps[-1]]


def _bars(size: tuple[int, int], rows: list[_Lengths], *, narrow: bool) -> Markup:
    plot = Plot.framed(size, (0, 100), (0, len(rows)), left=64, right=12, top=64)
    plot.x_axis([(x, f"{x}") for x in (0, 25, 50, 75, 100)], "%")
    for place, row in enumerate(rows):
        base = len(rows) - 1 - place
        plot.text((0, base + 0.5), f"step {row.step}", "ink", "end", (-8, 4.5))
        start = 0.0
        for share, fill in zip(row.shares, FILLS, strict=True):
            end = start + 100 * share
            plot.bar((start, end), (base + 0.15, base + 0.85), fill)
            plot.path([(end, base + 0.15), (end, base + 0.85)], "line thin s-ink")
            if share >= ROOM:
                middle = ((start + end) / 2, base + 0.5)
                plot.text(middle, percent(share, 0), "ink halo", "middle", (0, 4.5))
            start = end
    _legend(plot, len(rows), narrow=narrow)
    return plot.svg(
        "; ".join(
            f"step {row.step}: {percent(row.shares[0], 0)} percent of the gradients "
            f"are no longer than C, {percent(row.shares[-1], 0)} percent longer than "
            "10 C"
            for row in rows
        )
    )


def _legend(plot: Plot, top: float, *, narrow: bool) -> None:
    """Name the classes above the bars, each beside a piece of its colour."""
    columns = 2 if narrow else 3
    pixel = top / (plot.y.start - plot.y.end)  # in units of the axis of steps
    for number, (name, fill) in enumerate(zip(CLASSES, FILLS, strict=True)):
        x = 100 * (number % columns) / columns
        y = top + pixel * (44 - 22 * (number // columns) - (0 if narrow else 22))
        plot.bar(
            (x, x + 12 * 100 / (plot.x.end - plot.x.start)), (y, y + 12 * pixel), fill
        )
        plot.text((x, y), name, "ink", shift=(18, -1))
