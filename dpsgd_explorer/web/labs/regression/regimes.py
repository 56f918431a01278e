"""The notebook's second figure: SSP, AdaSSP, and descents with two noise levels."""

from __future__ import annotations

from markupsafe import Markup

from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.regression.rates import RELEASED
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.labs.regression.error_axes import COLOURS, DASHES
from dpsgd_explorer.web.labs.regression.plot import (
    NARROW,
    SHORT_NAMES,
    WIDE,
    courses,
    draw_baselines,
    draw_line,
    draw_names,
    draw_reading,
    error_plot,
    released,
    spread_text,
)
from dpsgd_explorer.web.labs.regression.question import METHODS
from dpsgd_explorer.web.labs.regression.release_figures import relation
from dpsgd_explorer.web.labs.regression.results import (
    REGIMES,
    UNPAID,
    View,
    epsilon_text,
    verdict,
)

NAME_ROOM = 120
RATE_WORDS: dict[float | str, str] = {
    "public": "from public bounds (n counts as public)",
    RELEASED: "the median of all descents: each releases a noisy λ_max first, within "
    "the same ε",
    "notebook": "from λ_max of the private XᵀX: not private, as in the notebook",
}

Lines = dict[str, tuple[tuple[float, ...], list[float]]]


def regimes_picture(view: View) -> Picture | None:
    """Returns the error of all methods against ε; None until it is computed."""
    return drawn(view) if len(view.regimes) == len(REGIMES) else None


def drawn(view: View) -> Picture:
    """Returns the figure of a view with both descents."""
    ends = " and ".join(
        f"{descent.spec.steps:,} steps with σ = {descent.spec.noise_multiplier:g}"
        for descent in view.regimes.values()
    )
    is_unpaid = view.question.chosen_rate == "notebook"
    return Picture(
        title=verdict(view.question, view.regime_ranking),
        sub="Median of the mean squared error on the training records of California "
        "housing, in (100,000 $)², against ε: SSP, AdaSSP, and noisy descents of "
        f"{ends}, at a learning rate "
        f"{RATE_WORDS.get(view.question.chosen_rate, 'as given')}",
        wide=_drawing(view, WIDE, narrow=False),
        narrow=_drawing(view, NARROW, narrow=True),
        head=(
            "ε",
            *(f"{SHORT_NAMES[name]}, 5 – 95 %" for name in (*METHODS, *REGIMES)),
        ),
        rows=_rows(view),
        kind="computed",
        status="" if is_unpaid else "exact",
        note=f"ε at δ = {text_of(view.question.delta)}, {relation(view)}. Each "
        "descent is a single run that spends ε step by step, planned to end at "
        "ε = 2; SSP and AdaSSP are released again at each ε."
        + (UNPAID if is_unpaid else ""),
        is_private=False,
    )


def _drawing(view: View, size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = error_plot(view, size, narrow=narrow, room=NAME_ROOM)
    draw_baselines(plot, view, narrow=narrow)
    lines = _lines(view)
    for name, (epsilons, medians) in lines.items():
        css = f"s-{COLOURS[name]}{DASHES.get(name, '')}"
        draw_line(plot, zip(epsilons, medians, strict=True), css)
    ends = [(v[-1], SHORT_NAMES[name], COLOURS[name]) for name, (_, v) in lines.items()]
    draw_names(plot, ends, narrow=narrow)
    draw_reading(plot, view.question.epsilon, view.regime_ranking)
    words = verdict(view.question, view.regime_ranking)
    return plot.svg(f"{words}. {courses(lines)}")


def _lines(view: View) -> Lines:
    """Returns {method: (ε, median error)}."""
    lines: Lines = {
        name: (EPSILONS, [spread.median for spread in sweep.spreads])
        for name, sweep in view.sweeps.items()
    }
    for name, descent in view.regimes.items():
        medians = [spread.median for spread in descent.trace.spreads]
        lines[name] = (descent.epsilons, medians)
    return lines


def _rows(view: View) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            epsilon_text(epsilon),
            *map(spread_text, spreads),
            *(_reached(view, name, epsilon) for name in REGIMES),
        )
        for epsilon, spreads in released(view).items()
    )


def _reached(view: View, name: str, epsilon: float) -> str:
    reached = view.regimes[name].within(epsilon)
    return spread_text(reached) if reached else "–"
