"""Errors of private linear regression against ε, read at one budget."""

from __future__ import annotations

import math
from typing import Any

from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.web.figures.regression import chapter
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.questions.regression_results import NAMES, mse

DESCENT = "noisy_gd"
SHOWN = tuple(round(epsilon, 4) for epsilon in EPSILONS)
TOP = 1.6  # the largest error that is drawn
DIGITS = 4


def picture() -> Picture:
    """Return the error of all methods against ε."""
    return chapter.comparison_picture()


def data() -> dict[str, Any]:
    """Return each method's median error and band at each ε; None beyond ``TOP``."""
    view = chapter.comparison()
    methods = [
        _method(name, [(s.median, s.low, s.high) for s in sweep.spreads])
        for name, sweep in view.sweeps.items()
    ]
    reached = [view.followed[""].within(epsilon) for epsilon in EPSILONS]
    spent = [(s.median, s.low, s.high) if s else None for s in reached]
    return {
        "epsilons": SHOWN,
        "first": 0,
        "top": TOP,
        "mean": round(view.evaluation_set.trivial_mse, DIGITS),
        "least": round(view.evaluation_set.mse, DIGITS),
        "methods": [*methods, _method(DESCENT, spent)],
    }


def _method(
    name: str, spreads: list[tuple[float, float, float] | None]
) -> dict[str, Any]:
    return {
        "slug": name,
        "name": NAMES[name],
        "medians": [_drawn(each[0]) if each else None for each in spreads],
        "texts": [mse(each[0]) if each else "–" for each in spreads],
        "bands": [
            f"{mse(each[1])} – {mse(each[2])}" if each else "–" for each in spreads
        ],
    }


def _drawn(error: float) -> float | None:
    return round(error, DIGITS) if math.isfinite(error) and error <= TOP else None
