"""The pull of the ridge: releases of two coefficients with and without it.

Misconception: "a biased answer is a worse answer"
Content: 50 releases of two coefficients at any ε, with the ridge (AdaSSP) and without
    it (SSP), from the same noise; the way on which the ridge pulls the solution to zero
Source: computed from the data (`regression/perturbation.py`); Wang 2018,
    arXiv:1803.02596
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from markupsafe import Markup

from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.california_housing.descents import PreparedHousing
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.perturbation import Perturbation
from dpsgd_explorer.web.figures.svg import Picture, Plot, round_ticks
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.rounding import nearest, significant

EPSILONS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0)
FIRST = 2  # index of the first ε
DELTA = 1e-6
RELEASES = 50
SEED = 0
METHODS = {"with": "adassp", "without": "ssp"}
NAMES = {"with": "AdaSSP, a ridge", "without": "SSP, no ridge"}
FEATURES = ("MedInc", "HouseAge")  # across and up
X_AXIS, Y_AXIS = (-2.0, 14.0), (-2.0, 5.0)  # of the coefficients
DIGITS = 2
WIDE, NARROW = (816, 320), (342, 210)


class Still:
    """A generator without noise: a release is then the solution with its ridge."""

    def standard_normal(self, shape: Any) -> Array:
        """Returns zeros."""
        return np.zeros(shape)


@cache
def releases() -> dict[str, list[dict[str, Any]]]:
    """Returns the releases of each method at each ε: points and errors."""
    return {way: [_at(way, epsilon) for epsilon in EPSILONS] for way in METHODS}


def _at(way: str, epsilon: float) -> dict[str, Any]:
    prepared = PreparedHousing()
    bounds = Bounds(prepared.x_bound, prepared.y_bound)
    method = Perturbation(method=METHODS[way], bounds=bounds)
    budget = method.budget(epsilon, DELTA)
    rng = np.random.default_rng(SEED)
    thetas = method.release(prepared.statistics, budget, rng, RELEASES)
    still = method.release(prepared.statistics, budget, Still())[0]
    columns = [housing.FEATURES.index(name) for name in FEATURES]
    points = thetas[:, columns].round(DIGITS).tolist()
    inside = [point for point in points if _is_inside(point)]
    errors = prepared.evaluation_set.mse_of(thetas)
    return {
        "points": inside,
        "outside": RELEASES - len(inside),
        "still": still[columns].round(DIGITS).tolist(),
        "error": significant(float(np.median(errors))),
    }


def _is_inside(point: list[float]) -> bool:
    axes = (X_AXIS, Y_AXIS)
    return all(low < v < high for v, (low, high) in zip(point, axes, strict=True))


def data() -> dict[str, Any]:
    """Returns axes, the solution without privacy, and all releases."""
    evaluation_set = PreparedHousing().evaluation_set
    columns = [housing.FEATURES.index(name) for name in FEATURES]
    return {
        "epsilons": EPSILONS,
        "first": FIRST,
        "names": NAMES,
        "features": FEATURES,
        "x": X_AXIS,
        "y": Y_AXIS,
        "xTicks": round_ticks(X_AXIS, 5),
        "yTicks": round_ticks(Y_AXIS, 5),
        "solution": evaluation_set.theta[columns].round(DIGITS).tolist(),
        "releases": RELEASES,
        "least": nearest(evaluation_set.mse),
        "ways": releases(),
    }


def picture() -> Picture:
    """Returns the releases with the ridge at the first ε."""
    found = data()
    shown = found["ways"]["with"][FIRST]
    title = (
        f"The ridge pulls the coefficients to zero: error {shown['error']}, without a "
        f"ridge {found['ways']['without'][FIRST]['error']}"
    )
    return Picture(
        title=title,
        sub=f"{RELEASES} releases at ε = {EPSILONS[FIRST]:g}; the coefficient of "
        f"{FEATURES[0]} across, of {FEATURES[1]} up",
        wide=_drawn(WIDE, found, title),
        narrow=_drawn(NARROW, found, title),
        head=("ε", *(f"median error: {name}" for name in NAMES.values())),
        rows=tuple(
            (f"{epsilon:g}", *(found["ways"][way][i]["error"] for way in METHODS))
            for i, epsilon in enumerate(EPSILONS)
        ),
        kind="computed",
        status="exact",
        note="A release publishes one of these dots at random. The errors are computed "
        "from the data and are not private.",
        is_private=False,
    )


def _drawn(size: tuple[int, int], found: dict[str, Any], title: str) -> Markup:
    plot = Plot.framed(size, X_AXIS, Y_AXIS, left=38, right=14)
    plot.y_axis(found["yTicks"], FEATURES[1])
    plot.x_axis(found["xTicks"], FEATURES[0])
    shown, solution = found["ways"]["with"][FIRST], found["solution"]
    for x, y in shown["points"]:
        plot.speck((x, y), "f-private soft", 4)
    way = [point["still"] for point in reversed(found["ways"]["with"])]
    plot.line([tuple(solution), *(tuple(p) for p in way), (0, 0)], "s-ink dotted")
    plot.dot((0, 0), "f-ink", 3)
    plot.text((0, 0), "zero", "ink halo", "end", (-8, 16))
    plot.dot(tuple(solution), "f-twin", 6)
    plot.text(tuple(solution), "not private", "twin halo", "middle", (0, -12))
    plot.dot(tuple(shown["still"]), "f-ink", 4)
    return plot.svg(f"{title}. A cloud of releases next to the solution.")


WIDGET = Widget(
    slug="ridge-pull",
    title="The pull of the ridge",
    picture=picture,
    data=data,
    controls={"epsilon": "ε", "ridge": "The ridge: 1 with, 2 without"},
    starts={"epsilon": (Choices(EPSILONS),), "ridge": (Choices((1, 2)),)},
)
