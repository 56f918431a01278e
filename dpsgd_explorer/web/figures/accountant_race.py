"""Chart and conclusion of the accountant race, for the lab and the widget.

``static/js/charts/race.js`` draws the same chart step by step.  It receives names,
colours and dashes from here and uses the same rules for axes, ticks and labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot, fanned, small
from dpsgd_explorer.web.questions.accountant_race import SILENT
from dpsgd_explorer.web.questions.privacy import CurvesAnswer, Racer
from dpsgd_explorer.web.questions.rounding import epsilon_limit

WIDE, NARROW = (774, 440), (358, 380)  # px, sizes of the lab's charts
NARROW_BELOW = 560  # px; a narrower chart has short names and no values
LEFT, TOP, BOTTOM = 58, 26, 44  # px, for the labels of the axes
SHORT_NAMES = 96  # px for short names at the ends of the lines
VALUE, LETTER = 76, 9  # px for a value, and for each letter of a whole name
LABEL_GAP = 17  # px from one label to the next
NOTICEABLE = 1e-4  # minimum relative error for the note "below the exact ε"
NAMES = {  # short names for narrow charts
    "exact": "exact",
    "rdp": "Rényi",
    "moments": "moments",
    "gdp": "central limit",
    "zcdp": "zCDP",
    "optimal": "optimal",
    "advanced": "advanced",
    "basic": "basic",
}
COLOURS = {
    "exact": "good",
    "bound": "private",
    "approximation": "budget",
    SILENT: "twin",
}
#: Lines of one colour differ by their dashes.
DASHES = {
    "moments": "dotted",
    "gdp": "dashed",
    "optimal": "dashed",
    "advanced": "long-dashed",
    "zcdp": "long-dash-dotted",
    "basic": "dash-dotted",
}


def looks() -> dict[str, Any]:
    """Returns names, dashes and colours for the script."""
    return {
        "names": NAMES,
        "dashes": DASHES,
        "colours": COLOURS,
        "silent": COLOURS[SILENT],
    }


def conclusion(
    steps: int,
    ends: Sequence[tuple[str, float | None]],
    write: Callable[[float | None], str] = epsilon_limit,
) -> str:
    """Returns the answers of the accountants after a number of steps, as a sentence.

    Args:
        steps: Number of steps.
        ends: Status and ε of each accountant that applies; None for an ε too large
            for a float.
        write: Formats an ε.
    """
    count = "1 step" if steps == 1 else f"{steps:,} steps"
    truth = next((value for status, value in ends if status == "exact"), None)
    answers = [f"exactly ε = {write(truth)}"] if truth is not None else []
    if bounds := [value for status, value in ends if status == "bound"]:
        largest = None if None in bounds else max(v for v in bounds if v is not None)
        answers.append(f"by bounds up to {write(largest)}")
    for status, value in ends:
        if status != "approximation" or value is None:
            continue
        is_below = truth is not None and value < truth * (1 - NOTICEABLE)
        below = ", below the truth" if is_below else ""
        answers.append(f"by an approximation {write(value)}{below}")
    return f"After {count}: {', '.join(answers) or 'no accountant has an answer'}"


def runners(answer: CurvesAnswer) -> list[Racer]:
    """Returns the accountants with at least one value."""
    return [
        racer
        for racer in answer.curves
        if any(value is not None for value in racer.epsilon)
    ]


def picture(answer: CurvesAnswer) -> Picture:
    """Returns the chart of the lab after the last step."""
    racers = runners(answer)
    ends = [(racer.status, racer.epsilon[-1]) for racer in racers]
    return Picture(
        title=conclusion(answer.steps[-1], ends),
        sub=f"ε after each step, δ = {small(answer.delta)}",
        wide=draw(WIDE, answer.steps, racers, has_values=True),
        narrow=draw(NARROW, answer.steps, racers),
        head=("Accountant", "ε"),
        rows=tuple((racer.label, epsilon_limit(racer.epsilon[-1])) for racer in racers),
        kind="computed",
    )


def draw(
    size: tuple[int, int],
    steps: Sequence[int],
    racers: Sequence[Racer],
    *,
    has_values: bool = False,
) -> Markup:
    """Returns the lines of all accountants, with a name at the end of each line.

    Args:
        size: Width and height.
        steps: Steps at which ε was computed.
        racers: Accountants with at least one value.
        has_values: If True, a wide chart has full names with values.
    """
    is_narrow = size[0] < NARROW_BELOW
    has_values = has_values and not is_narrow
    low, high = decades(racers)
    plot = Plot.framed(
        size,
        (1, max(10, steps[-1])),
        (10.0**low, 10.0**high),
        log_x=True,
        log_y=True,
        left=LEFT,
        right=_room(racers) if has_values else SHORT_NAMES,
        top=TOP,
        bottom=BOTTOM,
    )
    plot.y_axis(_ticks(low, high, 6), "ε, log scale")
    last = math.floor(math.log10(max(10, steps[-1])) + 1e-9)
    plot.x_axis(_ticks(0, last, 3 if is_narrow else 8), "steps, log scale")
    for racer in sorted(racers, key=lambda racer: racer.status == "exact"):
        points = [
            (step, value)
            for step, value in zip(steps, racer.epsilon, strict=True)
            if value
        ]
        thin = "" if racer.status == "exact" else " thin"
        dash = DASHES.get(racer.accountant, "")
        plot.line(points, f"s-{COLOURS[racer.status]}{thin} {dash}".rstrip())
    _write_ends(plot, steps[-1], racers, has_values=has_values)
    return plot.svg(
        "ε over steps, one line per accountant, both axes logarithmic: the exact "
        "accountant and tight bounds end close together, composition theorems higher."
    )


def decades(racers: Sequence[Racer]) -> tuple[int, int]:
    """Returns the exponents of the powers of ten below and above all values."""
    values = [value for racer in racers for value in racer.epsilon if value]
    if not values:
        return -2, 2
    low = math.floor(math.log10(min(values)) + 1e-9)
    return low, max(low + 1, math.ceil(math.log10(max(values)) - 1e-9))


def _write_ends(
    plot: Plot, last: int, racers: Sequence[Racer], *, has_values: bool
) -> None:
    ends = [(racer, racer.epsilon[-1]) for racer in racers]
    finite = [(racer, value) for racer, value in ends if value]
    heights = [plot.y(value) for _, value in finite]
    places = fanned(heights, LABEL_GAP, top=plot.y.end, bottom=plot.y.start)
    for (racer, value), height, place in zip(finite, heights, places, strict=True):
        point = (last, value)
        colour = COLOURS[racer.status]
        plot.speck(point, f"f-{colour}", 3)
        name = racer.label if has_values else NAMES[racer.accountant]
        shift = place - height + 4.5
        plot.text(point, name, f"{colour} halo", "start", (12, shift))
        if has_values:
            right = plot.width - plot.x(last) - 4
            plot.text(point, epsilon_limit(value), "ink", "end", (right, shift))


def _room(racers: Sequence[Racer]) -> int:
    return VALUE + LETTER * max((len(racer.label) for racer in racers), default=0)


def _ticks(low: int, high: int, most: int) -> list[tuple[float, str]]:
    every = max(1, math.ceil((high - low) / most))
    return [(float(f"1e{p}"), _power_text(p)) for p in range(low, high + 1, every)]


def _power_text(power: int) -> str:
    return f"{10.0**power:,g}" if -3 <= power < 6 else f"1e{power}"
