"""Errors of private linear regression against ε, read at one budget."""

from __future__ import annotations

import math
from typing import Any

from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.web.figures.regression import chapter, regimes
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.questions.regression_results import NAMES, REGIMES, mse

SHOWN = tuple(round(epsilon, 4) for epsilon in EPSILONS)
TOP = 1.6  # the largest error that is drawn
DIGITS = 4
LABELS = {name: f"σ = {noise:g}" for name, noise in REGIMES.items()}  # beside a line


def picture() -> Picture:
    """Return the error of all methods against ε."""
    return regimes.drawn(chapter.comparison())


def data() -> dict[str, Any]:
    """Return each method's median error and band at each ε; None beyond ``TOP``."""
    view = chapter.comparison()
    methods = [
        _method(name, [(s.median, s.low, s.high) for s in sweep.spreads])
        for name, sweep in view.sweeps.items()
    ]
    descents = [
        _method(
            name,
            [
                (s.median, s.low, s.high) if s else None
                for s in map(found.within, EPSILONS)
            ],
        )
        for name, found in view.regimes.items()
    ]
    return {
        "epsilons": SHOWN,
        "first": 0,
        "top": TOP,
        "mean": round(view.evaluation_set.trivial_mse, DIGITS),
        "least": round(view.evaluation_set.mse, DIGITS),
        "methods": [*methods, *descents],
    }


def _method(
    name: str, spreads: list[tuple[float, float, float] | None]
) -> dict[str, Any]:
    return {
        "slug": name,
        "name": NAMES[name],
        "label": LABELS.get(name, NAMES[name]),
        "medians": [_drawn(each[0]) if each else None for each in spreads],
        "texts": [mse(each[0]) if each else "–" for each in spreads],
        "bands": [
            f"{mse(each[1])} – {mse(each[2])}" if each else "–" for each in spreads
        ],
    }


def _drawn(error: float) -> float | None:
    return round(error, DIGITS) if math.isfinite(error) and error <= TOP else None
