"""Figures of the linear regression lab: errors, and a descent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup

from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.labs.regression.error_axes import COLOURS
from dpsgd_explorer.web.labs.regression.plot import (
    NARROW,
    SHORT_NAMES,
    TABLE_EPSILONS,
    WIDE,
    courses,
    draw_band,
    draw_baselines,
    draw_line,
    draw_names,
    draw_reading,
    error_plot,
    released,
    spread_text,
)
from dpsgd_explorer.web.labs.regression.question import METHODS, TOP_EPSILON
from dpsgd_explorer.web.labs.regression.regimes import RATE_WORDS, regimes_picture
from dpsgd_explorer.web.labs.regression.release_figures import (
    budget_picture,
    cloud_picture,
    relation,
)
from dpsgd_explorer.web.labs.regression.results import (
    NAMES,
    UNPAID,
    Followed,
    View,
    epsilon_text,
    mse,
    verdict,
)
from dpsgd_explorer.web.questions.rounding import limit


def errors_picture(view: View) -> Picture:
    """Returns the error of each method against ε, with both baselines."""
    repetitions = view.question.repetitions
    return Picture(
        title=verdict(view.question, view.ranking),
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
        f"{relation(view)}. The errors are computed from the data and are not "
        "private. Noisy gradient descent is a single run that spends ε step by "
        "step; its noise is planned for its last step."
        + (UNPAID if view.question.chosen_rate == "notebook" else ""),
        is_private=False,
    )


def _error_rows(view: View) -> tuple[tuple[str, ...], ...]:
    descent = view.followed.get("")
    rows = []
    for epsilon, spreads in released(view).items():
        reached = descent.within(epsilon) if descent else None
        rows.append(
            (
                epsilon_text(epsilon),
                *map(spread_text, spreads),
                mse(reached.median) if reached else "–",
            )
        )
    return tuple(rows)


def _errors(view: View, size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = error_plot(view, size, narrow=narrow)
    for name, sweep in view.sweeps.items():
        draw_band(plot, EPSILONS, sweep.spreads, COLOURS[name])
    draw_baselines(plot, view, narrow=narrow)
    descent = view.followed.get("")
    lines: dict[str, tuple[Sequence[float], Sequence[float]]] = {
        name: (EPSILONS, [s.median for s in sweep.spreads])
        for name, sweep in view.sweeps.items()
    }
    if descent:
        spreads = descent.trace.spreads
        lines["noisy_gd"] = (descent.epsilons, [s.median for s in spreads])
    for name, (epsilons, values) in lines.items():
        dash = " dashed" if name == "noisy_gd" else ""
        css = f"s-{COLOURS[name]}{dash}"
        draw_line(plot, zip(epsilons, values, strict=True), css)
    ends = [(v[-1], SHORT_NAMES[n], COLOURS[n]) for n, (_, v) in lines.items()]
    draw_names(plot, ends, narrow=narrow)
    draw_reading(plot, view.question.epsilon, view.ranking)
    return plot.svg(f"{verdict(view.question, view.ranking)}. {courses(lines)}")


def descent_picture(view: View) -> Picture | None:
    """Returns the error of the descent against spent ε; None until it is computed."""
    return path_picture(view) if "" in view.followed else None


def path_picture(view: View) -> Picture:
    """Returns the error of a computed descent against spent ε."""
    main = view.followed[""]
    spec = main.spec
    ends = "; ".join(
        f"rate {name}: {_end(descent)}"
        for name, descent in view.followed.items()
        if name
    )
    return Picture(
        title=f"After {spec.steps:,} steps and ε = {limit(main.epsilons[-1], 4)} "
        f"{_outcome(main)}{'; ' + ends if ends else ''}",
        sub=f"Median error of {spec.repetitions} descents, and the 5 to 95 % band "
        f"at the chosen rate, against ε as it is spent; σ = "
        f"{text_of(float(f'{spec.noise_multiplier:.4g}'))}",
        wide=_descent(view, WIDE, narrow=False),
        narrow=_descent(view, NARROW, narrow=True),
        head=("ε spent", "steps", *(f"rate {name}".strip() for name in view.followed)),
        rows=_descent_rows(view, main),
        kind="computed",
        status="" if spec.rate == "notebook" else "exact",
        note=f"Learning rate {text_of(float(f'{spec.learning_rate:.3g}'))}, "
        f"{RATE_WORDS.get(spec.rate, 'as given')}.",
        is_private=False,
    )


def _outcome(main: Followed) -> str:
    if math.isinf(main.end.median):
        return "the descent has diverged: its learning rate is too large"
    return f"the error is {mse(main.end.median)}"


def _end(descent: Followed) -> str:
    if math.isinf(descent.end.median):
        return "diverges"
    return mse(descent.end.median)


def _descent_rows(view: View, main: Followed) -> tuple[tuple[str, ...], ...]:
    count = len(main.trace.steps)
    indices = sorted({*np.linspace(0, count - 1, TABLE_EPSILONS).round().astype(int)})
    return tuple(
        (
            limit(main.epsilons[index], 3),
            f"{main.trace.steps[index]:,}",
            *(mse(f.trace.spreads[index].median) for f in view.followed.values()),
        )
        for index in indices
    )


def _descent(view: View, size: tuple[int, int], *, narrow: bool) -> Markup:
    main = view.followed[""]
    epsilon = max(TOP_EPSILON, main.epsilons[-1])
    plot = error_plot(view, size, narrow=narrow, epsilon=epsilon)
    draw_band(plot, main.epsilons, main.trace.spreads, "good")
    draw_baselines(plot, view, narrow=narrow)
    styles = {"÷ 10": "s-twin dotted", "": "s-good", "× 10": "s-budget dashed"}
    words = {"÷ 10": "twin", "": "good", "× 10": "budget"}
    for name, descent in view.followed.items():
        medians = [spread.median for spread in descent.trace.spreads]
        draw_line(plot, zip(descent.epsilons, medians, strict=True), styles[name])
    ends = [
        (descent.end.median, f"rate {name}".strip(), words[name])
        for name, descent in view.followed.items()
    ]
    draw_names(plot, ends, narrow=narrow)
    return plot.svg("The error of noisy gradient descent falls as ε is spent.")


PICTURES: dict[str, Callable[[View], Picture | None]] = {
    "errors": errors_picture,
    "cloud": cloud_picture,
    "budget": budget_picture,
    "descent": descent_picture,
    "regimes": regimes_picture,
}
