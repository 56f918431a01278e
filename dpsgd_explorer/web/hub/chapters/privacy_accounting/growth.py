"""Growth of ε along the classic run, with three methods of accounting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup

from dpsgd_explorer.accounting import epsilon_curve, gaussian_epsilon
from dpsgd_explorer.web.figures.svg import Picture, Plot, Scale
from dpsgd_explorer.web.hub.examples.classic_run import (
    BATCH_SIZE,
    DELTA,
    SAMPLE_SIZE,
    SHOWN_STEPS,
    classic_plan,
)
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.rounding import limit, thousands

LARGE = 1000  # larger ε have no decimals
#: Shaded gaps between two lines, and their fill.
GAPS = (
    ("summed", "composed", "f-wash-good"),
    ("composed", "sampled", "f-wash-private"),
)


@dataclass(frozen=True)
class Growth:
    """ε after some steps, with three methods of accounting.

    Attributes:
        steps: Number of steps.
        summed: Sum of the ε of single full-batch steps.
        composed: Exact ε of the full-batch steps together.
        sampled: Exact ε with Poisson sampling.
    """

    steps: int
    summed: float
    composed: float
    sampled: float


@cache
def growth(steps: tuple[int, ...]) -> tuple[Growth, ...]:
    """Returns ε after each number of steps.

    ``summed`` adds up the exact ε of single full-batch steps, each at δ / steps;
    ``composed`` is the exact ε of all steps at δ; ``sampled`` is the exact ε with
    Poisson sampling.
    """
    plan = classic_plan()
    sampled = epsilon_curve(
        sample_rate=plan.sample_rate,
        noise_multiplier=plan.noise_multiplier,
        delta=DELTA,
        steps=list(steps),
        accountant=plan.accountant,
    )
    sigma = plan.noise_multiplier
    return tuple(
        Growth(
            t,
            t * gaussian_epsilon(delta=DELTA / t, noise_multiplier=sigma),
            gaussian_epsilon(delta=DELTA, noise_multiplier=sigma, steps=t),
            value,
        )
        for t, value in zip(steps, sampled, strict=True)
    )


def classic_epsilon(noise_multiplier: float, steps: int, counted: str) -> float:
    """Returns ε of the classic run; ``counted`` is a field of ``Growth``.

    Raises:
        ValueError: The noise differs from the classic run.
    """
    if noise_multiplier != classic_plan().noise_multiplier:
        raise ValueError("only the classic run is counted here.")
    value: float = getattr(growth((steps,))[0], counted)
    return value


@cache
def growth_picture() -> Picture:
    """Returns three curves of ε over the steps of one run."""
    plan = classic_plan()
    ways = Comparison(
        classic_epsilon,
        "counted",
        ("summed", "composed", "sampled"),
        {"noise_multiplier": plan.noise_multiplier, "steps": plan.steps},
        _rounded,
    )
    return Picture(
        title=(
            f"After {plan.steps:,} steps: ε = {thousands(ways[0])} if you add up, "
            f"{thousands(ways[1])} if you compose, {ways[2]} if you count the sampling "
            "too"
        ),
        sub=(
            f"ε at δ = 1e-5 over steps; {ways.held}, {BATCH_SIZE} of "
            f"{SAMPLE_SIZE:,} records expected in a batch; add or remove one record"
        ),
        comparisons=(ways,),
        wide=_grow((904, 360), narrow=False),
        narrow=_grow((342, 300), narrow=True),
        head=("steps", "added up", "composed exactly", "with Poisson sampling"),
        rows=tuple(
            (
                f"{g.steps:,}",
                *map(_written, (g.summed, g.composed, g.sampled)),
            )
            for g in growth((*SHOWN_STEPS, plan.steps))
        ),
        status="exact",
        note="The lower line is exact. In the other two, every record is used in every "
        "step; adding up is a bound.",
    )


def _rounded(epsilon: float) -> str:
    return limit(epsilon, 0 if epsilon > LARGE else 2)


def _written(epsilon: float) -> str:
    text = _rounded(epsilon)
    return thousands(text) if epsilon > LARGE else text


def _grow(size: tuple[int, int], *, narrow: bool) -> Markup:
    total = classic_plan().steps
    steps = tuple(sorted({round(s) for s in Scale(1, total, 0, 1, True).spread(60)}))
    points = growth(steps)
    values = [v for p in points for v in (p.summed, p.composed, p.sampled)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    plot = Plot.framed(
        size,
        (1, total),
        (10.0**low, 10.0**high),
        log_x=True,
        log_y=True,
        left=60,
        right=68 if narrow else 170,
    )
    decades = range(low, high + 1, 2 if narrow else 1)
    plot.y_axis([(10.0**p, f"{10.0**p:,g}") for p in decades], "ε, log scale")
    ticks = (1, 100, 10_000) if narrow else SHOWN_STEPS
    plot.x_axis([(t, f"{t:,}") for t in ticks], "steps, log scale")
    for upper, lower, css in GAPS:
        over = [(p.steps, getattr(p, upper)) for p in points]
        under = [(p.steps, getattr(p, lower)) for p in reversed(points)]
        plot.path([*over, *under], f"{css} band", close=True)
    lines = (
        ("summed", "s-twin thin dashed", "twin", "added up"),
        ("composed", "s-good thin", "good", "composed exactly"),
        ("sampled", "s-private", "private", "sampling counted"),
    )
    for name, line, words, label in lines:
        curve = [(p.steps, getattr(p, name)) for p in points]
        plot.line(curve, line)
        if narrow:
            if name == "summed":
                plot.text(curve[-32], label, f"{words} halo", "end", (-4, -8))
            else:  # below its line, where no tick of the axis is
                plot.text(curve[-40], label, f"{words} halo", "start", (4, 20))
        else:
            plot.text(curve[-1], label, f"{words} halo", "start", (10, 4.5))
    for upper, lower, _ in GAPS:
        start, end = ((total, getattr(points[-1], name)) for name in (upper, lower))
        middle = (total, math.sqrt(start[1] * end[1]))
        plot.arrow(start, end, "s-ink thin", "f-ink")
        words = f"÷ {ratio(upper, lower)}"
        if narrow:
            plot.text(middle, words, "strong halo", "start", (9, 5))
        else:
            plot.text(middle, words, "strong halo", "end", (-10, 5))
    return plot.svg(
        "Three rising lines on log scales: adding up is highest; exact composition "
        f"divides it by {ratio('summed', 'composed')}, and counting the sampling "
        f"divides that by {ratio('composed', 'sampled')}."
    )


def ratio(upper: str, lower: str) -> str:
    """Returns the ratio of two ε after the last step, with two digits."""
    end = growth((classic_plan().steps,))[0]
    value = getattr(end, upper) / getattr(end, lower)
    digits = 1 - math.floor(math.log10(value))
    return f"{round(value, digits):,.0f}"
