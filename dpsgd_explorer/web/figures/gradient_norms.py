"""How long the gradients of a recorded run are: measured, not private."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot, Point
from dpsgd_explorer.web.questions.rounding import limit
from dpsgd_explorer.web.recorded.runs import RecordedRun

SHOWN_STEPS = (5, 10, 20)


def lengths_picture(run: RecordedRun) -> Picture:
    """Return how many gradients are longer than any length, at several steps."""
    lines = [_Lengths.of(run, step) for step in _nearest(run.data("step"), SHOWN_STEPS)]
    bound = run.config.max_grad_norm
    first, last = lines[0], lines[-1]
    return Picture(
        title=(
            f"In step {first.step}, {first.clipped:.0f} % of the gradients are longer "
            f"than C = {bound:g} and get shortened; in step {last.step}, "
            f"{last.clipped:.0f} %"
        ),
        sub=(
            "Share of the drawn records, %, whose gradient is longer than the value "
            f"below; {run.config.data.label}, "
            f"ε = {limit(run.summary['epsilon'])} in the end"
        ),
        wide=_longer((904, 330), lines, bound, narrow=False),
        narrow=_longer((342, 260), lines, bound, narrow=True),
        head=("longer than", *(f"step {line.step}, %" for line in lines)),
        rows=tuple(
            (f"{length:.3g}", *(f"{line.shares[i][1]:.1f}" for line in lines))
            for i, (length, _) in enumerate(first.shares)
            if i % 3 == len(first.shares) // 2 % 3
        ),
        kind="recorded",
        is_private=False,
        note="Lengths are measured without noise, to teach. They are no part of what "
        "the run releases.",
    )


@dataclass(frozen=True)
class _Lengths:
    """One step: share of gradients, percent, that is longer than each length."""

    step: int
    clipped: float
    shares: list[Point]

    @classmethod
    def of(cls, run: RecordedRun, step: dict[str, Any]) -> _Lengths:
        diagnostics = step["diagnostics"]
        counts = diagnostics["norm_counts"]
        edges = run.data("phase")[0]["norm_edges"][1:-1]  # the outer bins have no end
        shorter = list(accumulate(counts))
        shares = [
            (edge, 100 - 100 * below / shorter[-1])
            for edge, below in zip(edges, shorter, strict=False)
        ]
        return cls(step["step"], 100 * diagnostics["clipped_fraction"], shares)


def _nearest(steps: list[Any], wanted: Sequence[int]) -> list[Any]:
    """Return the told steps nearest to the wanted ones, and the last."""
    distances = [[abs(step["step"] - number) for step in steps] for number in wanted]
    chosen = [steps[row.index(min(row))] for row in distances]
    return [*chosen, steps[-1]]


def _longer(
    size: tuple[int, int], lines: list[_Lengths], bound: float, *, narrow: bool
) -> Markup:
    low, high = lines[0].shares[0][0], lines[0].shares[-1][0]
    plot = Plot.framed(size, (low, high), (0, 100), log_x=True, right=90)
    plot.y_axis([(y, f"{y}") for y in (0, 25, 50, 75, 100)], "%")
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    marks = [10.0**p for p in powers]
    plot.x_axis([(m, f"{m:g}") for m in marks], "gradient length, log scale")
    plot.path([(bound, 0), (bound, 100)], "line thin s-ink")
    plot.text((bound, 100), f"C = {bound:g}", "ink halo", "middle", (0, -8))
    for number, line in enumerate(lines):
        weight = "s-private" if number == len(lines) - 1 else "s-private thin soft"
        plot.line(line.shares, weight)
        plot.dot((bound, line.clipped), "f-private", 4)
        plot.text(line.shares[-1], f"step {line.step}", "private halo", shift=(8, 4.5))
    return plot.svg(
        f"{len(lines)} falling curves, the later the step the lower; where they cross "
        f"the bound C = {bound:g} they show the clipped share."
    )
