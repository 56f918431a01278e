"""Chart of the planner's map, for pages without script.

``budget_map.js`` draws the same chart when the plan changes; it receives the ticks of
the axes from here.
"""

from __future__ import annotations

import math

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.labs.planner.api import BudgetAnswer
from dpsgd_explorer.web.labs.planner.budget_map import BudgetMap, Contour
from dpsgd_explorer.web.questions.rounding import need

WIDE, NARROW = (814, 400), (358, 330)  # px
LEFT, RIGHT, TOP, BOTTOM = 44, 64, 28, 44  # px, margins for labels
#: Ticks of the axes, also for the script.
AXES = {"epochs": (1, 3, 10, 30, 100), "noise_multiplier": (0.5, 1, 2, 4, 8)}
NEAR = 0.12  # maximum log10 ratio of two ε whose labels overlap


def picture(lines: BudgetMap, answer: BudgetAnswer) -> Picture:
    """Returns the map with the plan on it."""
    return Picture(
        title=conclusion(answer, lines.budget.epsilon),
        sub="Lines of equal ε over epochs and noise multiplier σ",
        wide=_draw(WIDE, lines, answer),
        narrow=_draw(NARROW, lines, answer),
        head=("ε", "Epochs", "Noise multiplier σ"),
        rows=(),
        kind="computed",
    )


def conclusion(answer: BudgetAnswer, budget: float) -> str:
    """Returns the plan and its ε, in one sentence."""
    noise = need(answer.noise_multiplier, 3)
    over = float(answer.epsilon_text) > budget
    more = f", more than {budget:.3g}" if over else ""
    plan = f"{answer.epochs:.3g} epochs at σ = {noise}"
    return f"{plan} spend ε = {answer.epsilon_text}{more}"


def _draw(size: tuple[int, int], lines: BudgetMap, answer: BudgetAnswer) -> Markup:
    plot = Plot.framed(
        size,
        lines.epochs,
        lines.noise_multiplier,
        left=LEFT,
        right=RIGHT,
        top=TOP,
        bottom=BOTTOM,
        log_x=True,
        log_y=True,
    )
    plot.y_axis(_ticks("noise_multiplier"), "σ")
    plot.x_axis(_ticks("epochs"), "epochs, log scale")
    for line in lines.contours:
        if abs(math.log10(line.epsilon / lines.budget.epsilon)) > NEAR:
            _add(plot, line, lines, "private", " thin")
    _add(plot, lines.budget, lines, "budget", "")
    plan = (answer.epochs, answer.noise_multiplier)
    if _is_inside(plan[0], lines.epochs) and _is_inside(
        plan[1], lines.noise_multiplier
    ):
        plot.speck(plan, "handle", 8)
    return plot.svg("Lines of equal ε: more epochs need more noise.")


def _add(plot: Plot, line: Contour, lines: BudgetMap, colour: str, thin: str) -> None:
    inside = within(line, lines.noise_multiplier)
    plot.line(inside, f"s-{colour}{thin}")
    if len(inside) < 2:
        return
    end = inside[-1]
    leaves_right = end[0] > 0.999 * lines.epochs[1]
    shift = (6, 4.5) if leaves_right else (6, -6)
    plot.text(end, f"ε = {line.epsilon:.3g}", f"{colour} halo", "start", shift)


def within(line: Contour, ends: tuple[float, float]) -> list[tuple[float, float]]:
    """Returns the part of a line between two noise multipliers, cut at them."""
    points = list(zip(line.epochs, line.noise_multiplier, strict=True))
    kept: list[tuple[float, float]] = []
    for i, (x, y) in enumerate(points):
        if i:
            kept += _crossings(points[i - 1], (x, y), ends)
        if _is_inside(y, ends):
            kept.append((x, y))
    return kept


def _crossings(
    start: tuple[float, float], end: tuple[float, float], ends: tuple[float, float]
) -> list[tuple[float, float]]:
    """Returns the points where a segment crosses an end, interpolated by ratios."""
    (x0, y0), (x1, y1) = start, end
    crossings = []
    for level in ends:
        if (y0 - level) * (y1 - level) < 0:
            share = math.log(level / y0) / math.log(y1 / y0)
            crossings.append((x0 * (x1 / x0) ** share, level))
    return crossings


def _is_inside(value: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= value <= ends[1]


def _ticks(name: str) -> list[tuple[float, str]]:
    return [(value, f"{value:g}") for value in AXES[name]]
