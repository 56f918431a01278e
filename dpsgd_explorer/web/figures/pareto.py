"""Chart of accuracy against ε for many runs; each dot links to its run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from dpsgd_explorer.web.figures.svg import Anchor, Plot, round_ticks
from dpsgd_explorer.web.questions.rounding import percent

WIDE, NARROW = (790, 430), (342, 300)
WHOLE = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99)  # ticks for a wide range of accuracies
CLOSE = 0.2  # range of accuracies below which ticks are round percentages
LEAST_ERROR = 1e-4
LEAST_HEIGHT = 0.02  # minimum range of the accuracy axis
ROOM = 1.35  # ratio of the ends of the axis to the first and last ε
HIT = 12  # px, radius of the area around a dot that reacts to the pointer
HEAD = ("Run", "ε", "Accuracy, %", "State")
Place = Literal["on-front", "beaten", "ended"]


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One run as a dot.

    Attributes:
        place: "front", "beaten", or "ended" before its last step.
        link: Address of the run.
        words: Description of the run.
        spent: ε as text.
    """

    epsilon: float
    accuracy: float
    place: Place
    link: str
    words: str
    spent: str


def pareto_drawings(label: str, dots: Sequence[Dot]) -> tuple[Markup, Markup]:
    """Returns the charts for wide and for narrow pages.

    Args:
        label: Name of the data set.
        dots: At least one dot, in order of ε.
    """
    wide = _draw(label, dots, WIDE, narrow=False)
    return wide, _draw(label, dots, NARROW, narrow=True)


def _draw(
    data: str, dots: Sequence[Dot], size: tuple[int, int], *, narrow: bool
) -> Markup:
    best = [dot for dot in dots if dot.place == "on-front"]
    epsilons = [dot.epsilon for dot in dots]
    x = (min(epsilons) / ROOM, max(epsilons) * ROOM)
    y = _error_ends([_error(dot) for dot in dots])
    plot = Plot.framed(size, x, y, log_x=True, log_y=True)
    plot.y_axis(_accuracy_ticks(y), "%")
    plot.x_axis(_epsilon_ticks(x, most=4 if narrow else 9), "ε, log scale")
    _draw_front(plot, best)
    # The arrow keys follow the order of drawing: by ε.  Of runs with one ε the front's
    # is drawn last, so that an equal run does not hide it.
    for dot in sorted(dots, key=lambda dot: (dot.epsilon, dot in best)):
        plot.marks.append(_link(plot, dot))
    if best and not narrow:
        _label(plot, best[0], "start")
        if len(best) > 1:
            _label(plot, best[-1], "end")
    label = (
        f"{len(dots)} runs on {data}: accuracy against epsilon on a log "
        f"scale. {len(best)} are on the front. Each dot leads to its run."
    )
    return Markup(
        f'<svg class="plot" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" '
        f'height="{size[1]}" role="group" aria-label="{escape(label)}" data-dots>'
        f"{''.join(plot.marks)}</svg>"
    )


def _draw_front(plot: Plot, best: Sequence[Dot]) -> None:
    """Draws the best accuracy with at most each ε, as a filled staircase."""
    steps: list[tuple[float, float]] = []
    for dot in best:
        if steps:
            steps.append((dot.epsilon, steps[-1][1]))
        steps.append((dot.epsilon, _error(dot)))
    if steps:
        steps.append((plot.x.high, steps[-1][1]))
        plot.area(steps, "f-area soft", plot.y.low)
        plot.line(steps, "s-private thin")


def _link(plot: Plot, dot: Dot) -> str:
    x, y = plot.x(dot.epsilon), plot.y(_error(dot))
    mark = f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    if dot.place == "ended":  # a diamond
        mark = f'<path class="mark" d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"/>'
    hit = f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="{HIT}"/>'
    words = escape(dot.words)
    return (
        f'<a class="run-dot {dot.place}" href="{escape(dot.link)}" '
        f'aria-label="{words}"><title>{words}</title>{hit}{mark}</a>'
    )


def _label(plot: Plot, dot: Dot, anchor: Anchor) -> None:
    words = f"ε {dot.spent}, {percent(dot.accuracy)} %"
    shift = (10.0, 18.0) if anchor == "start" else (-8.0, -12.0)
    plot.text((dot.epsilon, _error(dot)), words, "private halo", anchor, shift)


def _error(dot: Dot) -> float:
    return max(1 - dot.accuracy, LEAST_ERROR)


def _error_ends(errors: Sequence[float]) -> tuple[float, float]:
    """Returns the errors at the bottom and at the top of the chart."""
    least, most = min(errors), max(errors)
    margin = (most / least) ** 0.08 * 1.01
    most, least = most * margin, least / margin
    more = max(0.0, LEAST_HEIGHT - (most - least)) / 2
    return min(most + more, 1.0), max(least - more, LEAST_ERROR / margin)


def _accuracy_ticks(bounds: tuple[float, float]) -> list[tuple[float, str]]:
    low, high = 1 - bounds[0], 1 - bounds[1]
    if high - low < CLOSE:
        ticks = round_ticks((100 * low, 100 * high), 5)
        return [(1 - tick / 100, text) for tick, text in ticks]
    shown = [tick for tick in WHOLE if low <= tick <= high]
    return [(1 - tick, f"{100 * tick:g}") for tick in shown]


def _epsilon_ticks(bounds: tuple[float, float], most: int) -> list[tuple[float, str]]:
    """Returns at most ``most`` round ticks between the bounds, as close as possible."""
    powers = range(math.floor(math.log10(bounds[0])), math.ceil(math.log10(bounds[1])))
    for factors in (range(1, 10), (1, 2, 5), (1, 3), (1,)):
        ticks = [f * 10.0**p for p in powers for f in factors]
        ticks = [tick for tick in ticks if bounds[0] <= tick <= bounds[1]]
        if len(ticks) <= most:
            break
    return [(tick, f"{tick:.6g}") for tick in ticks]
