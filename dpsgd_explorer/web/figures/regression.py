"""The linear-regression lab's drawings: errors, a cloud, a budget, a descent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from markupsafe import Markup

from dpsgd_explorer.regression.comparison import EPSILONS, Spread
from dpsgd_explorer.web.figures.error_axes import COLOURS, ERROR_NAME, ErrorAxes
from dpsgd_explorer.web.figures.regression_parts import (
    budget_picture,
    cloud_picture,
    relation,
)
from dpsgd_explorer.web.figures.svg import Anchor, Picture, Plot, Point
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.questions.regression import METHODS, TOP_EPSILON
from dpsgd_explorer.web.questions.regression_results import (
    FEW,
    NAMES,
    Followed,
    View,
    epsilon_text,
    mse,
    verdict,
)
from dpsgd_explorer.web.questions.rounding import limit, significant

WIDE, NARROW = (816, 380), (342, 320)
BANDS = {"private": "f-area", "attack": "f-wash-attack", "good": "f-wash-good"}
TABLE_EPSILONS = 8
UNPAID = " Its learning rate is taken from the data, which its ε does not cover."
RATE_WORDS: dict[float | str, str] = {
    "public": "from public bounds (n counts as public)",
    "notebook": "from λ_max of the private XᵀX: not private, as in the notebook",
}

Points = Sequence[Point]


def errors_picture(view: View) -> Picture:
    """Return the error of each method against ε, with both baselines."""
    repetitions = view.question.repetitions
    return Picture(
        title=verdict(view),
        sub="Mean squared error on the training records of California housing, in "
        "(100,000 $)², against ε: median and 5 to 95 % band of "
        f"{repetitions} releases at each ε",
        wide=_errors(view, WIDE, narrow=False),
        narrow=_errors(view, NARROW, narrow=True),
        head=("ε", *(f"{NAMES[name]}, 5 – 95 %" for name in METHODS), "noisy GD"),
        rows=_error_rows(view),
        kind="computed",
        status="exact",
        note=f"ε at δ = {text_of(view.question.delta)}, exactly accounted, "
        f"{relation(view)}. The errors themselves are computed from the data. The "
        "descent is one path that spends as it goes; it was planned for its end."
        + (UNPAID if view.question.descent_spec().rate == "notebook" else ""),
        is_private=False,
    )


def _error_rows(view: View) -> tuple[tuple[str, ...], ...]:
    places = np.linspace(0, len(EPSILONS) - 1, TABLE_EPSILONS).round().astype(int)
    columns = {
        EPSILONS[at]: [view.sweeps[name].spreads[at] for name in METHODS]
        for at in places
    }
    variant = view.question.variant
    columns[view.question.epsilon] = [
        view.chosen[name][variant].spreads[0] for name in METHODS
    ]
    descent = view.followed.get("")
    rows = []
    for epsilon, spreads in sorted(columns.items()):
        reached = descent.within(epsilon) if descent else None
        rows.append(
            (
                epsilon_text(epsilon),
                *map(_spread, spreads),
                mse(reached.median) if reached else "–",
            )
        )
    return tuple(rows)


def _errors(view: View, size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = _plot(view, size, narrow=narrow)
    for name, sweep in view.sweeps.items():
        _band(plot, EPSILONS, sweep.spreads, COLOURS[name])
    _baselines(plot, view, narrow=narrow)
    descent = view.followed.get("")
    lines = {
        name: (EPSILONS, [s.median for s in sweep.spreads])
        for name, sweep in view.sweeps.items()
    }
    if descent:
        spreads = descent.trace.spreads
        lines["noisy_gd"] = (descent.epsilons, [s.median for s in spreads])
    for name, (epsilons, values) in lines.items():
        dash = " dashed" if name == "noisy_gd" else ""
        _line(plot, zip(epsilons, values, strict=True), f"s-{COLOURS[name]}{dash}")
    ends = [
        (values[-1], _short_name(n), COLOURS[n]) for n, (_, values) in lines.items()
    ]
    _names(plot, ends, narrow=narrow)
    chosen = view.question.epsilon
    plot.path([(chosen, plot.y.low), (chosen, plot.y.high)], "line thin s-ink dotted")
    for ranked in view.ranking:
        if ranked.spread.median <= plot.y.high:
            at = (chosen, ranked.spread.median)
            plot.dot(at, f"f-{COLOURS[ranked.name]}", 4)
    return plot.svg(f"{verdict(view)}. {_courses(lines)}")


def _courses(lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Return where each line of medians begins and ends, as a sentence."""
    courses = [
        f"{_short_name(name)} from {_two(errors[0])} to {_two(errors[-1])}"
        for name, (_, errors) in lines.items()
    ]
    return f"Median errors, from the least ε to the largest: {'; '.join(courses)}."


def _two(error: float) -> str:
    return significant(error) if math.isfinite(error) else "no limit"


def _names(plot: Plot, ends: Sequence[tuple[float, str, str]], *, narrow: bool) -> None:
    """Write each line's name at its right end, none over another.

    ``ends`` holds last value, name and colour; on narrow pages the names stand in the
    corner, the highest first.
    """
    floor = math.inf
    for place, (value, name, colour) in enumerate(sorted(ends)):
        end = min(value, plot.y.high)
        css = f"{colour} halo"
        if narrow:
            at = (plot.x.high, plot.y.high)
            down = 70 + 18 * (len(ends) - 1 - place)
            plot.text(at, name, css, "end", (0, down))
            continue
        pixel = min(plot.y(end), floor)
        floor = pixel - 17
        shift = (10, pixel - plot.y(end) + 4.5)
        plot.text((plot.x.high, end), name, css, "start", shift)


def descent_picture(view: View) -> Picture | None:
    """Return the error of the descent as it spends; None until it is computed."""
    return path_picture(view) if "" in view.followed else None


def path_picture(view: View) -> Picture:
    """Return the error of a descent that is at hand, as it spends."""
    main = view.followed[""]
    spec = main.spec
    ends = "; ".join(
        f"rate {name}: {_end(found)}" for name, found in view.followed.items() if name
    )
    return Picture(
        title=f"After {spec.steps:,} steps and ε = {limit(main.epsilons[-1], 4)} "
        f"{_outcome(main)}{'; ' + ends if ends else ''}",
        sub=f"Median error of {spec.repetitions} descents, and the 5 to 95 % band "
        f"at the chosen rate, against ε as it is spent; σ = {spec.noise_multiplier:g}",
        wide=_descent(view, WIDE, narrow=False),
        narrow=_descent(view, NARROW, narrow=True),
        head=("ε spent", "steps", *(f"rate {name}".strip() for name in view.followed)),
        rows=_descent_rows(view, main),
        kind="computed",
        status="" if spec.rate == "notebook" else "exact",
        note=f"Learning rate {text_of(float(f'{spec.learning_rate:.3g}'))}, "
        f"{RATE_WORDS.get(spec.rate, 'as it was given')}.",
        is_private=False,
    )


def _outcome(main: Followed) -> str:
    if math.isinf(main.end.median):
        return "the descent has diverged: its learning rate is too large"
    return f"the error is {mse(main.end.median)}"


def _end(found: Followed) -> str:
    if math.isinf(found.end.median):
        return "diverges"
    return mse(found.end.median)


def _descent_rows(view: View, main: Followed) -> tuple[tuple[str, ...], ...]:
    count = len(main.trace.steps)
    places = sorted({*np.linspace(0, count - 1, TABLE_EPSILONS).round().astype(int)})
    return tuple(
        (
            limit(main.epsilons[at], 3),
            f"{main.trace.steps[at]:,}",
            *(mse(f.trace.spreads[at].median) for f in view.followed.values()),
        )
        for at in places
    )


def _descent(view: View, size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = _plot(view, size, narrow=narrow)
    main = view.followed[""]
    _band(plot, main.epsilons, main.trace.spreads, "good")
    _baselines(plot, view, narrow=narrow)
    styles = {"÷ 10": "s-twin dotted", "": "s-good", "× 10": "s-budget dashed"}
    words = {"÷ 10": "twin", "": "good", "× 10": "budget"}
    for name, found in view.followed.items():
        medians = [spread.median for spread in found.trace.spreads]
        _line(plot, zip(found.epsilons, medians, strict=True), styles[name])
    ends = [
        (found.end.median, f"rate {name}".strip(), words[name])
        for name, found in view.followed.items()
    ]
    _names(plot, ends, narrow=narrow)
    return plot.svg("The error of noisy gradient descent falls as ε is spent.")


def _plot(view: View, size: tuple[int, int], *, narrow: bool) -> Plot:
    axes = _axes(view)
    right = 12 if narrow else 92
    plot = Plot.framed(size, (0, axes.epsilon), axes.error, left=44, right=right)
    plot.y_axis(axes.ticks, ERROR_NAME)
    plot.x_axis([(e, f"{e:g}") for e in (0, 0.5, 1, 1.5, 2)], "ε")
    return plot


def _axes(view: View) -> ErrorAxes:
    return ErrorAxes.of(view.question.prepared_housing, TOP_EPSILON)


def _baselines(plot: Plot, view: View, *, narrow: bool) -> None:
    for line in _axes(view).baselines:
        ends = [(plot.x.low, line.error), (plot.x.high, line.error)]
        plot.line(ends, f"thin dashed s-{line.colour}")
        side: Anchor = "end" if line.is_at_end else "start"
        shift = -4 if line.is_at_end else 4 if narrow else 60
        plot.text(ends[line.is_at_end], line.words, "twin halo", side, (shift, -6))


def _band(
    plot: Plot, epsilons: Sequence[float], spreads: Sequence[Spread], style: str
) -> None:
    kept = partial(min, plot.y.high)
    upper = [(e, kept(s.high)) for e, s in zip(epsilons, spreads, strict=True)]
    lower = [(e, kept(s.low)) for e, s in zip(epsilons, spreads, strict=True)]
    plot.path([*upper, *lower[::-1]], f"band {BANDS[style]}", close=True)


def _line(plot: Plot, points: object, css: str) -> None:
    """Draw a line where it is on the paper; it ends at the edge and comes back."""
    piece: list[Point] = []
    for x, y in points:  # type: ignore[attr-defined]
        if y > plot.y.high:
            _finish(plot, piece, css)
            piece = []
        else:
            piece.append((x, y))
    _finish(plot, piece, css)


def _finish(plot: Plot, piece: list[Point], css: str) -> None:
    if len(piece) > 1:
        plot.line(piece, css)


def _spread(spread: Spread) -> str:
    return f"{_short(spread.median)} ({_short(spread.low)} – {_short(spread.high)})"


def _short(error: float) -> str:
    """Return an error of few releases: three digits of it."""
    return significant(error, 3) if error < FEW else mse(error)


def _short_name(name: str) -> str:
    return "noisy GD" if name == "noisy_gd" else NAMES[name]


PICTURES: dict[str, Callable[[View], Picture | None]] = {
    "errors": errors_picture,
    "cloud": cloud_picture,
    "budget": budget_picture,
    "descent": descent_picture,
}
