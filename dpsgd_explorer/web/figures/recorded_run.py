"""Chart of a recorded run: accuracy against ε, with a twin without privacy."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.accounting.queries import epsilon_interval
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.web.figures.svg import Picture, Plot, Point, Status
from dpsgd_explorer.web.questions.rounding import limit, percent
from dpsgd_explorer.web.recorded.runs import RecordedRun

ROWS = 10


def accuracy_picture(
    run: RecordedRun, twin: RecordedRun, size: tuple[int, int] = (848, 380)
) -> Picture:
    """Returns accuracy against ε, with the run on the same batches without privacy.

    The twin has no ε; it is drawn at the ε of the private run at the same step.
    """
    curve = spent_and_accuracy(run, run)
    beside = spent_and_accuracy(twin, run)
    data = run.config.data
    accuracy, unprotected = curve[-1][1], beside[-1][1]
    return Picture(
        title=(
            f"At ε = {limit(curve[-1][0])} the model is right on "
            f"{percent(accuracy, 2)} of 100 unseen records; without privacy, on the "
            f"same batches, on {percent(unprotected, 2)}"
        ),
        sub=f"Test accuracy, %, on the {data.test_size:,} test records of "
        f"{data.label}; {MODELS[run.config.model].inline_label}",
        wide=_draw(size, curve, beside, narrow=False),
        narrow=_draw((342, 260), curve, beside, narrow=True),
        head=("ε spent", "private, %", "without privacy, %"),
        rows=tuple(
            (limit(e), percent(a, 2), percent(b, 2))
            for (e, a), (_, b) in _thinned(list(zip(curve, beside, strict=True)))
        ),
        kind="recorded",
        status=_status(run.config.plan),
    )


def _status(plan: Plan) -> Status:
    """Returns the status of the ε of the whole run."""
    phase = Phase(plan.sample_rate, plan.noise_multiplier, plan.steps)
    return epsilon_interval([phase], plan.delta, plan.accountant).status


def spent_and_accuracy(run: RecordedRun, spender: RecordedRun) -> list[Point]:
    """Returns ε spent by ``spender`` and accuracy of ``run``, for each evaluation."""
    steps = [step for step, _ in run.curve()]
    spent = spender.config.plan.epsilons(steps)
    return [(e, a) for e, (_, a) in zip(spent, run.curve(), strict=True)]


def _thinned(rows: list[Any]) -> list[Any]:
    """Returns about ten of the rows, including the last."""
    stride = max(1, math.ceil(len(rows) / ROWS))
    return rows[::-1][::stride][::-1]


def _draw(
    size: tuple[int, int], curve: list[Point], twin_curve: list[Point], *, narrow: bool
) -> Markup:
    wall = curve[-1][0]
    floor = accuracy_floor(curve)
    plot = Plot.framed(size, (0, 1.08 * wall), (floor, 100))
    tick = _tick((100 - floor) / 5)
    levels = [floor + tick * i for i in range(math.floor((100 - floor) / tick) + 1)]
    plot.y_axis([(level, f"{level:g}") for level in levels], "%")
    stride = _tick(wall / (3 if narrow else 6))
    marks = [stride * i for i in range(math.floor(1.001 * wall / stride) + 1)]
    plot.x_axis([(mark, f"{mark:g}") for mark in marks], "ε spent (δ = 1e-5)")
    plot.bar((wall, plot.x.high), (floor, 100), "f-wash-budget")
    for points, css in ((twin_curve, "s-twin thin dashed"), (curve, "s-private")):
        plot.line(_above(points, floor), css)
    plot.path([(wall, floor), (wall, 100)], "line s-budget")
    end = (wall, 100 * curve[-1][1])
    plot.dot(end, "f-private")
    private = f"private, {percent(curve[-1][1], 2)} %"
    plot.text(end, private, "private halo", "end", (-12, 30))
    unprotected = f"same batches without privacy, {percent(twin_curve[-1][1], 2)} %"
    words = unprotected.replace("same batches ", "") if narrow else unprotected
    middle = (0.62 * wall, 100 * twin_curve[-1][1])
    plot.text(middle, words, "twin halo", "middle", (0, -10))
    budget = f"budget ε = {limit(wall)}"
    plot.text((wall, floor), budget, "budget halo", "end", (-8, -12))
    return plot.svg(
        f"Test accuracy against epsilon: it ends at {percent(curve[-1][1], 2)} percent "
        "with epsilon "
        f"{limit(wall)}; the run without privacy ends at "
        f"{percent(twin_curve[-1][1], 2)} percent."
    )


def accuracy_floor(curve: list[Point]) -> float:
    """Returns the start of the accuracy axis, in percent, rounded down to tens."""
    early = 100 * curve[len(curve) // 8][1]
    return min(90.0, 10 * math.floor(early / 10))


def _above(points: list[Point], floor: float) -> list[Point]:
    """Returns the points after the last point below the floor, in percent."""
    below = [i for i, (_, a) in enumerate(points) if 100 * a < floor]
    return [(e, 100 * a) for e, a in points[below[-1] + 1 if below else 0 :]]


def _tick(rough: float) -> float:
    """Returns ``rough`` rounded up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= rough * 0.999)
