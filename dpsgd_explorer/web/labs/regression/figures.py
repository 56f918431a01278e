"""Figures of errors against ε: all methods, two noise regimes, three learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from dpsgd_explorer.experiments.vocabulary import RELATIONS
from dpsgd_explorer.regression.comparison import EPSILONS, Spread
from dpsgd_explorer.regression.rates import RELEASED
from dpsgd_explorer.web.figures.svg import Anchor, Picture, Plot, fanned, round_ticks
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.labs.regression.error_axes import (
    COLOURS,
    DASHES,
    ERROR_NAME,
    ErrorAxes,
)
from dpsgd_explorer.web.labs.regression.question import METHODS, TOP_EPSILON
from dpsgd_explorer.web.labs.regression.release_figures import (
    budget_picture,
    cloud_picture,
)
from dpsgd_explorer.web.labs.regression.results import (
    FEW,
    NAMES,
    RATE_FACTORS,
    REGIMES,
    Followed,
    View,
    epsilon_text,
    mse,
    verdict,
)
from dpsgd_explorer.web.questions.rounding import limit, significant

WIDE, NARROW = (816, 380), (342, 320)
BANDS = {"adassp": "f-area", "ssp": "f-wash-attack", "": "f-wash-good"}
EPSILON_TICKS = 5
TABLE_EPSILONS = 8  # number of rows of a table, without the row of the question
NAME_ROOM = 172  # px, right margin of a wide chart for the names of lines
LABEL_GAP = 17  # px between the names of two lines
SAMPLE_PX = 24  # width of the piece of line next to its name
LETTER_PX = 6.5  # largest average width of a letter in a name
LAST_PART = 0.75  # share of ε from where the trend of a line is measured
FLAT = 0.01  # smallest change of the error that counts as a trend
SHORT_NAMES = {
    **NAMES,
    "noisy_gd": "noisy GD",
    **{name: f"GD, σ = {noise:g}" for name, noise in REGIMES.items()},
    **{name: f"rate {name}" if name else "chosen rate" for name in RATE_FACTORS},
}
RATE_WORDS: dict[float | str, str] = {
    "public": "from public bounds (n counts as public)",
    RELEASED: "the median of all descents: each releases a noisy λ_max first, within "
    "the same ε",
    "notebook": "from λ_max of the private XᵀX: not private, as in the notebook",
}

Lines = dict[str, tuple[Sequence[float], Sequence[Spread]]]  # name: (ε, errors)


def errors_picture(view: View) -> Picture:
    """Returns the error of SSP, AdaSSP and the descent against ε."""
    main = view.followed.get("")
    return _compared(
        view,
        {"noisy_gd": main} if main else {},
        f"median and 5 to 95 % band of {view.question.repetitions} releases at each ε",
    )


def regimes_picture(view: View) -> Picture:
    """Returns the error of SSP, AdaSSP and the notebook's two descents against ε."""
    ends = " and ".join(
        f"{descent.spec.steps:,} steps with σ = {descent.spec.noise_multiplier:g}"
        for descent in view.regimes.values()
    )
    rate = RATE_WORDS.get(view.question.chosen_rate, "as given")
    sub = f"median of SSP, AdaSSP, and noisy descents of {ends}, at a learning rate"
    return _compared(view, view.regimes, f"{sub} {rate}")


def rates_picture(view: View) -> Picture:
    """Returns the error of the descent against spent ε, at three learning rates."""
    main, spec = view.followed[""], view.followed[""].spec
    ends = (f"rate {n}: {_end(d)}" for n, d in view.followed.items() if n)
    if math.isinf(main.end.median):
        outcome = "the descent has diverged: its learning rate is too large"
    else:
        outcome = f"the error is {mse(main.end.median)}"
    title = f"After {spec.steps:,} steps and ε = {limit(main.epsilons[-1], 4)} "
    return Picture(
        **_drawn(
            view,
            _lines(view.followed),
            title + "; ".join((outcome, *ends)),
            names={
                n: f"{SHORT_NAMES[n]}, {_trend(d)}" for n, d in view.followed.items()
            },
        ),
        sub=f"Median error of {spec.repetitions} descents, and the 5 to 95 % band "
        f"at the chosen rate, against ε as it is spent; σ = "
        f"{text_of(float(f'{spec.noise_multiplier:.4g}'))}",
        head=("ε spent", "steps", *(SHORT_NAMES[name] for name in view.followed)),
        rows=tuple(
            (
                limit(main.epsilons[index], 3),
                f"{main.steps[index]:,}",
                *(mse(d.spreads[index].median) for d in view.followed.values()),
            )
            for index in _spaced(len(main.steps))
        ),
        note=f"Learning rate {text_of(float(f'{spec.learning_rate:.3g}'))}, "
        f"{RATE_WORDS.get(spec.rate, 'as given')}. {_changes(view.followed)}",
    )


#: The figures of the lab, by their ids, in order.
PICTURES: dict[str, Callable[[View], Picture]] = {
    "errors": errors_picture,
    "descent": rates_picture,
    "regimes": regimes_picture,
    "cloud": cloud_picture,
    "budget": budget_picture,
}


def pictures(view: View) -> dict[str, Picture]:
    """Returns the figures of a view, without those of descents that are missing."""
    missing = set() if "" in view.followed else {"descent"}
    missing |= set() if len(view.regimes) == len(REGIMES) else {"regimes"}
    return {name: draw(view) for name, draw in PICTURES.items() if name not in missing}


def _compared(view: View, descents: Mapping[str, Followed], sub: str) -> Picture:
    """Returns the error of SSP, AdaSSP and descents against ε."""
    sweeps = {n: (EPSILONS, sweep.spreads) for n, sweep in view.sweeps.items()}
    lines: Lines = {**sweeps, **_lines(descents)}
    ranking = view.ranked(descents)
    is_unpaid = bool(descents) and view.question.chosen_rate == "notebook"
    unpaid = " Its learning rate is taken from the data, which its ε does not cover."
    reached = [(ranked.name, ranked.spread.median) for ranked in ranking]
    return Picture(
        **_drawn(view, lines, verdict(view.question, ranking), reached),
        sub="Mean squared error on the training records of California housing, in "
        f"(100,000 $)², against ε: {sub}",
        head=("ε", *(f"{SHORT_NAMES[name]}, 5 – 95 %" for name in lines)),
        rows=tuple(
            (
                epsilon_text(epsilon),
                *map(_spread_text, spreads),
                *(_spread_text(d.within(epsilon)) for d in descents.values()),
            )
            for epsilon, spreads in _released(view).items()
        ),
        note=f"ε at δ = {text_of(view.question.delta)}, exactly accounted, "
        f"{RELATIONS[view.question.neighboring_relation]}. The errors are computed "
        "from the data and are not private. SSP and AdaSSP are released again at "
        "each ε. A descent is a single run that spends ε step by step; its noise is "
        "planned for its last step." + (unpaid if is_unpaid else ""),
    )


def _drawn(
    view: View,
    lines: Lines,
    title: str,
    reached: Sequence[tuple[str, float]] = (),
    names: Mapping[str, str] = SHORT_NAMES,
) -> dict[str, Any]:
    """Returns title, drawings and claims of a figure; ``reached``: errors at ε."""
    is_paid = view.question.chosen_rate != "notebook" or lines.keys() == METHODS.keys()
    label = f"{title}. {_courses(lines)}"
    return {
        "title": title,
        "wide": _draw(view, lines, reached, names, label, narrow=False),
        "narrow": _draw(view, lines, reached, names, label, narrow=True),
        "kind": "computed",
        "status": "exact" if is_paid else "",
        "is_private": False,
    }


def _draw(
    view: View,
    lines: Lines,
    reached: Sequence[tuple[str, float]],
    names: Mapping[str, str],
    label: str,
    *,
    narrow: bool,
) -> Markup:
    end = max(TOP_EPSILON, lines[""][0][-1]) if "" in lines else TOP_EPSILON
    axes = ErrorAxes.of(view.question.prepared_housing, end)
    size, right = (NARROW, 12) if narrow else (WIDE, NAME_ROOM)
    plot = Plot.framed(size, (0, axes.epsilon), axes.error, left=44, right=right)
    plot.y_axis(axes.ticks, ERROR_NAME)
    plot.x_axis(round_ticks((0, axes.epsilon), EPSILON_TICKS), "ε")
    if not lines.keys() & REGIMES.keys():  # more bands would cover each other
        for name in (name for name in lines if name in BANDS):
            _draw_band(plot, *lines[name], BANDS[name])
    for line in axes.baselines:
        ends = [(plot.x.low, line.error), (plot.x.high, line.error)]
        plot.line(ends, f"thin dashed s-{line.colour}")
        side: Anchor = "end" if line.is_at_end else "start"
        shift = -4 if line.is_at_end else 4 if narrow else 60
        plot.text(ends[line.is_at_end], line.words, "twin halo", side, (shift, -6))
    for name, (epsilons, spreads) in lines.items():
        points = zip(epsilons, (spread.median for spread in spreads), strict=True)
        _draw_line(plot, points, f"s-{COLOURS[name]}{DASHES.get(name, '')}")
    _draw_names(plot, lines, names, narrow=narrow)
    if reached:
        epsilon = view.question.epsilon
        mark = [(epsilon, plot.y.low), (epsilon, plot.y.high)]
        plot.path(mark, "line thin s-ink dotted")
        for name, error in reached:
            if error <= plot.y.high:
                plot.dot((epsilon, error), f"f-{COLOURS[name]}", 4)
    return plot.svg(label)


def _draw_band(
    plot: Plot, epsilons: Sequence[float], spreads: Sequence[Spread], css: str
) -> None:
    """Draws the band from 5% to 95% of the errors, clipped to the axes."""
    top, points = plot.y.high, list(zip(epsilons, spreads, strict=True))
    upper = [(epsilon, min(top, spread.high)) for epsilon, spread in points]
    lower = [(epsilon, min(top, spread.low)) for epsilon, spread in points]
    plot.path([*upper, *lower[::-1]], f"band {css}", close=True)


def _draw_line(plot: Plot, points: Iterable[tuple[float, float]], css: str) -> None:
    """Draws the parts of a line that are inside the axes."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point[0] > plot.x.high or point[1] > plot.y.high:
            pieces.append([])
        else:
            pieces[-1].append(point)
    for piece in pieces:
        if len(piece) > 1:
            plot.line(piece, css)


def _draw_names(
    plot: Plot, lines: Lines, names: Mapping[str, str], *, narrow: bool
) -> None:
    """Writes each line's name at its right end, or in the corner, highest first.

    A short piece of the line precedes the name, so that dashes can be told apart.
    """
    ends = sorted(
        (-min(spreads[-1].median, plot.y.high), name)
        for name, (_, spreads) in lines.items()
    )
    heights = [plot.y(-end) for end, _ in ends]
    left = plot.x.end + 10
    if narrow:
        heights = [plot.y.end + 58 + (LABEL_GAP + 1) * i for i in range(len(ends))]
        left = plot.x.end - LETTER_PX * max(len(names[n]) for n in lines) - SAMPLE_PX
    else:
        heights = fanned(heights, LABEL_GAP, bottom=plot.y.start)
    for (_, name), height in zip(ends, heights, strict=True):
        css = f"line legend s-{COLOURS[name]}{DASHES.get(name, '')}"
        plot.marks.append(
            f'<path class="{css}" d="M{left:.1f} {height:.1f}h{SAMPLE_PX - 6}"/>'
        )
        shift = (left + SAMPLE_PX - plot.x.end, height - plot.y.end + 4.5)
        css = f"{COLOURS[name]} halo"
        plot.text((plot.x.high, plot.y.high), names[name], css, "start", shift)


def _change(descent: Followed) -> float:
    """Returns the change of the median error in the last part of a descent."""
    start = descent.within(LAST_PART * descent.epsilons[-1])
    return descent.end.median - (start or descent.spreads[0]).median


def _trend(descent: Followed) -> str:
    change = _change(descent)
    if not math.isfinite(change):
        return "diverges"
    return "flat" if abs(change) < FLAT else "falling" if change < 0 else "rising"


def _changes(descents: Mapping[str, Followed]) -> str:
    """Returns the change of each error in the last part of the descents."""
    start = LAST_PART * descents[""].epsilons[-1]
    parts = [f"{SHORT_NAMES[n]} {_signed(_change(d))}" for n, d in descents.items()]
    return f"Change of the error after ε = {limit(start)}: {', '.join(parts)}."


def _signed(change: float) -> str:
    if not math.isfinite(change):
        return "without limit"
    return ("+" if change > 0 else "−") + significant(abs(change))


def _courses(lines: Lines) -> str:
    """Returns the first and last value of each line of medians, as a sentence."""
    parts = [
        f"{SHORT_NAMES[n]} from {_short(s[0].median)} to {_short(s[-1].median)}"
        for n, (_, s) in lines.items()
    ]
    return f"Median errors, from the least ε to the largest: {'; '.join(parts)}."


def _lines(descents: Mapping[str, Followed]) -> Lines:
    return {n: (d.epsilons, d.spreads) for n, d in descents.items()}


def _end(descent: Followed) -> str:
    median = descent.end.median
    return "diverges" if math.isinf(median) else mse(median)


def _released(view: View) -> dict[float, list[Spread]]:
    """Returns {ε: errors of SSP and AdaSSP} for a table, in order of ε."""
    spreads = {
        EPSILONS[i]: [view.sweeps[name].spreads[i] for name in METHODS]
        for i in _spaced(len(EPSILONS))
    }
    variant = view.question.variant
    chosen = [view.chosen[name][variant].spreads[0] for name in METHODS]
    return dict(sorted((spreads | {view.question.epsilon: chosen}).items()))


def _spaced(count: int) -> list[int]:
    """Returns the indices of the rows of a table, evenly spaced."""
    return sorted({*np.linspace(0, count - 1, TABLE_EPSILONS).round().astype(int)})


def _spread_text(spread: Spread | None) -> str:
    """Returns a median and its band as text for a table; "–" without any."""
    if spread is None:
        return "–"
    return f"{_short(spread.median)} ({_short(spread.low)} – {_short(spread.high)})"


def _short(error: float) -> str:
    """Returns an error of few releases, with three digits."""
    return significant(error, 3) if error < FEW else mse(error)
