"""Figures of SGD on the toy problem, with and without one record."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby

from markupsafe import Markup

from dpsgd_explorer.web.figures.frames import ride
from dpsgd_explorer.web.figures.svg import Anchor, Frames, Picture, Plot
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.examples.toy_problem import SIZE as TOY_SIZE
from dpsgd_explorer.web.hub.examples.toy_problem import Vector
from dpsgd_explorer.web.hub.widgets.one_odd_record.widget import (
    slope_with,
    slope_without,
    times_longer,
)

__all__ = [
    "TOY_SIZE",
    "descent_picture",
    "separation",
    "slope_with",
    "slope_without",
    "times_longer",
]

SEED = 3
BATCH_SIZE = 4
EPOCHS = 12
ORDERS = 200  # number of orders of the batches that are tried
LEARNING_RATE = 0.25
START: Vector = (-0.9, -0.2)
LEVELS = (0.05, 0.2, 0.45, 0.8)


def batches(seed: int = SEED) -> list[list[int]]:
    """Returns the records of each step; every epoch has a new order."""
    source = random.Random(seed)
    cut = []
    for _ in range(EPOCHS):
        order = list(range(toy.SIZE))
        source.shuffle(order)
        cut += [order[i : i + BATCH_SIZE] for i in range(0, toy.SIZE, BATCH_SIZE)]
    return cut


def path(without: int | None = None, seed: int = SEED) -> list[Vector]:
    """Returns θ after each step; ``without`` is a record to omit from the batches."""
    points, theta = toy.records(), START
    visited = [theta]
    for batch in batches(seed):
        drawn = [toy.gradient(theta, points[i]) for i in batch if i != without]
        step = toy.scaled(toy.total(drawn), -LEARNING_RATE / len(drawn))
        theta = theta[0] + step[0], theta[1] + step[1]
        visited.append(theta)
    return visited


@dataclass(frozen=True)
class Separation:
    """How well the ends with and without the odd record are separated.

    Attributes:
        orders: Number of tried orders of the batches, each with and without the record.
        mistaken: Number of final θ on the wrong side of the best threshold on the line
            through both means.
    """

    orders: int
    mistaken: int

    @property
    def words(self) -> str:
        """Consequence for an attacker, in words."""
        if not self.mistaken:
            return "one straight cut separates all ends with it from all without it"
        ends = 2 * self.orders
        return f"one straight cut misclassifies {self.mistaken} of {ends} ends"


@cache
def separation(orders: int = ORDERS) -> Separation:
    """Returns the separation of the final θ over many orders of the batches."""
    seeds = range(SEED + 1, SEED + 1 + orders)
    ends = [[path(w, seed)[-1] for seed in seeds] for w in (None, toy.ODD)]
    means = [toy.scaled(toy.total(world), 1 / orders) for world in ends]
    axis = means[1][0] - means[0][0], means[1][1] - means[0][1]
    with_it, without = (
        sorted(axis[0] * end[0] + axis[1] * end[1] for end in world) for world in ends
    )
    cuts = (
        sum(x > cut for x in with_it) + sum(x <= cut for x in without)
        for cut in with_it
    )
    return Separation(orders, min(cuts))


def moves() -> list[float]:
    """Returns the distance of the final θ with and without each record."""
    end = path()[-1]
    ends = (path(without=i)[-1] for i in range(toy.SIZE))
    return [math.dist(end, other) for other in ends]


@cache
def descent_picture() -> Picture:
    """Returns the figure of both paths and of the effect of each record."""
    distances = moves()
    odd, others = distances[toy.ODD], distances[: toy.ODD]
    usual = statistics.median(others)
    end = (
        f"Leaving out one record of {toy.SIZE} moves the end of training by "
        f"{odd:.2f}, {odd / usual:.0f} times what a usual record does"
    )
    steps = len(batches())
    return Picture(
        title=end,
        sub=(
            f"Two parameters, {len(batches())} steps of SGD, batches of {BATCH_SIZE}; "
            "rings: equal training loss"
        ),
        wide=_draw((904, 400), narrow=False),
        narrow=_draw((342, 330), narrow=True),
        head=("record left out", "end moves by"),
        rows=(
            ("the odd one", f"{odd:.3f}"),
            ("the most influential of the others", f"{max(others):.3f}"),
            ("the median of the others", f"{usual:.3f}"),
            ("the least influential of the others", f"{min(others):.3f}"),
        ),
        note="Made-up records, real training: a straight line through "
        f"{toy.SIZE} points, one of them far off. Both paths see the same batches.",
        frames=Frames(
            name="Step",
            places=("0", *map(_place, range(1, steps + 1))),
            titles=(*map(_title, range(steps)), end),
            still=steps,
        ),
    )


def _place(step: int) -> str:
    """Returns a step's number, and the odd record if the step uses it."""
    is_there = toy.ODD in batches()[step - 1]
    return f"with record {toy.ODD + 1} · {step}" if is_there else f"{step}"


def _title(steps: int) -> str:
    """Returns the figure's sentence after a number of steps."""
    apart = math.dist(path()[steps], path(without=toy.ODD)[steps])
    return (
        f"After {steps} steps on the same batches, the models with and without record "
        f"{toy.ODD + 1} are {apart:.2f} apart"
    )


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    x_range = (-1.35, 1.45) if narrow else (-2.2, 2.4)
    plot = Plot.framed(size, x_range, (-0.55, 1.15), left=36, top=30)
    with_all, without = path(), path(without=toy.ODD)
    plot.y_axis([(y, f"{y:g}") for y in (-0.5, 0, 0.5, 1)], "intercept b")
    slopes = (-1, 0, 1) if narrow else (-2, -1, 0, 1, 2)
    plot.x_axis([(x, f"{x}") for x in slopes], "slope a")
    for level in LEVELS:
        for visible, arc in groupby(_ring(level), partial(_inside, plot)):
            if visible:
                plot.path(arc, "line thin s-faint faint")
    plot.dot(START, "f-ink", 4)
    last = len(batches())
    ride(plot, without, "thin s-twin dashed", still=last, fill="f-twin", grows=True)
    ride(plot, with_all, "thin s-attack", still=last, fill="f-attack", grows=True)
    plot.text(START, "start", "ink halo", "end", (-10, 4))
    side: Anchor = "end" if narrow else "start"
    plot.text(
        without[-1],
        "without the odd record",
        "twin halo",
        side,
        (0 if narrow else 12, -16 if narrow else -8),
    )
    plot.text(with_all[-1], "with all records", "attack halo", "start", (12, 18))
    return plot.svg(
        "Two zigzag paths from one starting point over rings of equal loss; they end "
        "at different points, although their data differ in one record only."
    )


def _inside(plot: Plot, point: Vector) -> bool:
    return (
        plot.x.low <= point[0] <= plot.x.high and plot.y.low <= point[1] <= plot.y.high
    )


def _ring(level: float) -> Sequence[Vector]:
    """Returns points whose mean loss exceeds the minimum by ``level``.

    The loss is quadratic: (θ - θ*)ᵀ H (θ - θ*) / 2 with H = [[m2, m1], [m1, 1]], which
    is u² + v² for u = √(m2 - m1²) (a - a*), v = m1 (a - a*) + (b - b*).
    """
    points = toy.records()
    m1 = statistics.fmean(x for x, _ in points)
    m2 = statistics.fmean(x * x for x, _ in points)
    best = toy.fit(points)
    radius, spread = math.sqrt(2 * level), math.sqrt(m2 - m1 * m1)
    ring = []
    for turn in range(73):
        t = 2 * math.pi * turn / 72
        slope = radius * math.cos(t) / spread
        ring.append((best[0] + slope, best[1] + radius * math.sin(t) - m1 * slope))
    return ring


thumbnail = descent_picture
