"""Errors of private linear regression against ε, read at one budget.

Misconception: "SGD is the way to train privately", and "a private answer is better than
    none"
Content: errors of AdaSSP, SSP and two noisy descents at any ε, next to always answering
    the mean and least squares without privacy
Source: computed from the data (`regression/comparison.py`); Wang 2018, arXiv:1803.02596
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.web.figures.svg import Picture, round_ticks
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.labs.regression import figures
from dpsgd_explorer.web.labs.regression.error_axes import COLOURS, DASHES, ErrorAxes
from dpsgd_explorer.web.labs.regression.question import RegressionQuestion
from dpsgd_explorer.web.labs.regression.results import NAMES, REGIMES, View
from dpsgd_explorer.web.questions.rounding import nearest, significant

SHOWN = tuple(round(epsilon, 4) for epsilon in EPSILONS)
FIRST_EPSILON = SHOWN[0]
REPETITIONS = 200  # releases per method and ε
DIGITS = 4  # decimals of plotted errors
KNOWN_DIGITS = 2  # significant digits of a median of these releases
LABELS = {name: f"σ = {noise:g}" for name, noise in REGIMES.items()}  # labels of lines


@cache
def comparison() -> View:
    """Returns the errors of all methods, for the widget and its chapter."""
    return View(RegressionQuestion(epsilon=FIRST_EPSILON, repetitions=REPETITIONS))


def picture() -> Picture:
    """Returns the error of all methods against ε."""
    return figures.regimes_picture(comparison())


def data() -> dict[str, Any]:
    """Returns axes, colours, and each method's median error and band at each ε.

    A median above the axis of errors is None.
    """
    view = comparison()
    axes = ErrorAxes.of(view.question.prepared_housing, SHOWN[-1])
    methods = [
        _method(name, [(s.median, s.low, s.high) for s in sweep.spreads], axes)
        for name, sweep in view.sweeps.items()
    ]
    descents = [
        _method(
            name,
            [
                (s.median, s.low, s.high) if s else None
                for s in map(descent.within, EPSILONS)
            ],
            axes,
        )
        for name, descent in view.regimes.items()
    ]
    return {
        "epsilons": SHOWN,
        "first": 0,
        "axes": axes.for_script(),
        "epsilonTicks": round_ticks((0, axes.epsilon), figures.EPSILON_TICKS),
        "mean": round(view.evaluation_set.trivial_mse, DIGITS),
        "baselines": {
            "mean": nearest(view.evaluation_set.trivial_mse),
            "least": nearest(view.evaluation_set.mse),
        },
        "sub": (
            f"Median of {REPETITIONS} releases at each ε, or of "
            f"{view.regimes['small_noise'].spec.repetitions} descents, on the records "
            "themselves. Learning rate of the descents: "
            f"{figures.RATE_WORDS[view.question.chosen_rate]}"
        ),
        "methods": [*methods, *descents],
    }


def _method(
    name: str, spreads: list[tuple[float, float, float] | None], axes: ErrorAxes
) -> dict[str, Any]:
    return {
        "slug": name,
        "name": NAMES[name],
        "label": LABELS.get(name, NAMES[name]),
        "colour": COLOURS[name],
        "dash": DASHES.get(name, ""),
        "medians": [_drawn(spread[0], axes) if spread else None for spread in spreads],
        "texts": [_known(spread[0]) if spread else "–" for spread in spreads],
        "bands": [
            f"{_known(spread[1])} – {_known(spread[2])}" if spread else "–"
            for spread in spreads
        ],
    }


def _known(error: float) -> str:
    return significant(error, KNOWN_DIGITS) if math.isfinite(error) else "∞"


def _drawn(error: float, axes: ErrorAxes) -> float | None:
    is_shown = math.isfinite(error) and error <= axes.error[1]
    return round(error, DIGITS) if is_shown else None


WIDGET = Widget(
    slug="regression-errors",
    title="Errors of private regression",
    picture=picture,
    data=data,
    controls={"epsilon": "ε"},
    starts={"epsilon": (Choices(SHOWN),)},
)
