"""Figures of an attack on each record of the toy problem in turn.

The attacker knows the other records and all settings.  It trains both worlds many
times, selects the axis that separates them best, and then classifies new trainings.
Ordinary training has the same random batches, but no clipping and no noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache

import numpy as np
from markupsafe import Markup

from dpsgd_explorer.accounting import Phase, epsilon
from dpsgd_explorer.web.figures.svg import Picture, Plot, Point, small
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.examples.default_run import unclipped_learning_rate
from dpsgd_explorer.web.hub.examples.toy_problem import ODD as TOY_ODD
from dpsgd_explorer.web.hub.examples.toy_problem import SIZE as TOY_SIZE
from dpsgd_explorer.web.hub.examples.toy_training import STEPS, best_axis, train
from dpsgd_explorer.web.hub.widgets.recited_number import widget as recited_number
from dpsgd_explorer.web.hub.widgets.two_worlds import widget as two_worlds
from dpsgd_explorer.web.questions import rounding
from dpsgd_explorer.web.questions.odds import THIS_RUN, Limits

__all__ = [
    "TOY_ODD",
    "TOY_SIZE",
    "WIDGET_TRAININGS",
    "exposure_picture",
    "limits",
    "ordinary_median",
    "ordinary_odd",
    "private_most",
    "recited_persons",
    "scatter",
    "spent_epsilon",
    "unclipped_learning_rate",
]

WIDGET_TRAININGS = two_worlds.COUNTS[0]  # trainings per world in the widget
TRAININGS = 200  # per world to classify, and again per world to choose the axis
SAMPLE_RATE = 0.5
NOISE = 8.0
BOUND = 1.0
UNBOUNDED = 1e6  # a clipping bound that has no effect
DELTA = 1e-3
SEED = 90


@cache
def right_calls(record: int, noise_multiplier: float, bound: float) -> float:
    """Returns the share of right calls about one record, from 0 to 1."""
    points = toy.records()
    order = [*points[:record], *points[record + 1 :], points[record]]
    worlds = [
        train(
            2 * TRAININGS,
            with_odd=is_there,
            sample_rate=SAMPLE_RATE,
            noise_multiplier=noise_multiplier,
            max_grad_norm=bound,
            seed=SEED + 2 * record + is_there,
            records=order,
        )
        for is_there in (False, True)
    ]
    axis, middle = best_axis(worlds[0][:TRAININGS], worlds[1][:TRAININGS])
    calls = [world[TRAININGS:] @ axis > middle for world in worlds]
    return float(np.mean([*~calls[0], *calls[1]]))


@cache
def exposures() -> list[tuple[int, float, float]]:
    """Returns record, ordinary and private share of right calls, most exposed last."""
    rows = [
        (i, right_calls(i, 0.0, UNBOUNDED), right_calls(i, NOISE, BOUND))
        for i in range(toy.SIZE)
    ]
    return sorted(rows, key=lambda row: row[1])


@cache
def limits() -> Limits:
    """Returns the largest share of right calls about a private training."""
    run = Phase(SAMPLE_RATE, NOISE, STEPS)
    return Limits.of(
        [run],
        epsilon(
            sample_rate=SAMPLE_RATE, noise_multiplier=NOISE, steps=STEPS, delta=DELTA
        ),
        DELTA,
    )


def spent_epsilon() -> str:
    """Returns ε of the private trainings, rounded up."""
    return rounding.limit(
        epsilon(
            sample_rate=SAMPLE_RATE, noise_multiplier=NOISE, steps=STEPS, delta=DELTA
        )
    )


def ordinary_odd() -> str:
    """Returns the share of right calls about the odd record without privacy, %."""
    return f"{100 * right_calls(toy.ODD, 0.0, UNBOUNDED):.1f}"


def ordinary_median() -> str:
    """Returns the median record's share of right calls without privacy, %."""
    return f"{100 * statistics.median(row[1] for row in exposures()):.0f}"


def private_most() -> str:
    """Returns the largest share of right calls about any record with privacy, %."""
    return f"{100 * max(row[2] for row in exposures()):.0f}"


def scatter() -> str:
    """Returns the precision of a share of hits in the widget, in points."""
    return two_worlds.scatter(WIDGET_TRAININGS)


@cache
def exposure_picture() -> Picture:
    """Returns the share of right calls about each record, with privacy and without."""
    return Picture(
        title=(
            f"Without privacy, calls about the odd record are right {ordinary_odd()} "
            f"% of the time, about the median record {ordinary_median()} %; with ε = "
            f"{spent_epsilon()}, about no record more than {private_most()} %"
        ),
        sub=(
            f"Right calls about each of {toy.SIZE} records, %, sorted; {TRAININGS} "
            f"trainings with it and {TRAININGS} without it, {STEPS} steps each"
        ),
        wide=_draw((904, 340), narrow=False),
        narrow=_draw((342, 300), narrow=True),
        head=("record", "ordinary training, %", f"ε = {spent_epsilon()}, %"),
        rows=tuple(
            (
                "the odd one" if i == toy.ODD else f"{i + 1}",
                f"{100 * ordinary:.1f}",
                f"{100 * private:.1f}",
            )
            for i, ordinary, private in exposures()
        ),
        kind="illustration",
        status="exact",
        note=f"Made-up records, seeded noise, real training; σ = {NOISE:g}, q = "
        f"{SAMPLE_RATE:g}, δ = {small(DELTA)}, one record added or removed, "
        f"with it and without it equally likely. A share of {2 * TRAININGS} "
        f"calls is accurate to about {_margin():.0f} points. Ordinary training "
        "is not private.",
    )


def _margin() -> float:
    """Returns twice the standard error of a share of one half, in points."""
    return 100 / math.sqrt(2 * TRAININGS)


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    rows = exposures()
    plot = Plot.framed(size, (-0.5, len(rows) - 0.5), (40, 105), top=34)
    plot.y_axis([(y, f"{y}") for y in (50, 75, 100)], "right calls, %")
    plot.x_axis([], "records, most exposed without privacy at the right")
    edge = 100 * limits().run
    plot.line([(-0.5, edge), (len(rows) - 0.5, edge)], "s-budget thin")
    words = "limit, this run" if narrow else f"right at most ({limits()})"
    plot.text((-0.5, edge), words, "budget halo", "start", (6, -7))
    for place, (_, ordinary, private) in enumerate(rows):
        pair: Sequence[Point] = [
            (place, 100 * private),
            (place, 100 * ordinary),
        ]
        plot.line(pair, "s-faint thin")
        plot.speck(pair[1], "f-attack", 3 if narrow else 5)
        plot.speck(pair[0], "f-private", 3 if narrow else 5)
    last = len(rows) - 1
    plot.text((last, 100 * rows[-1][1]), "the odd one", "attack halo", "end", (-9, 9))
    # The upper left is empty: a visitor's guess is further right or lower.
    for height, words, css in ((95, "ordinary", "attack"), (87, "private", "private")):
        plot.speck((0, height), f"f-{css} legend", 3 if narrow else 5)
        plot.text((0, height), words, f"{css} halo", "start", (10, 5))
    return plot.svg(
        f"Two dots for each of {toy.SIZE} records. Without privacy they rise to "
        f"{ordinary_odd()} percent at the odd record; with privacy they stay near 50, "
        f"below a level line, the limit of {THIS_RUN}."
    )


thumbnail = exposure_picture


def recited_persons() -> str:
    """Returns the number of people whose sentences the reciting model was tuned on."""
    return f"{recited_number.stored()['persons']:,}"
