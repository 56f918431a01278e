"""Figures of the audit chapter: lower bounds on ε from trainings in both worlds.

Each world is trained many times on the toy problem; a fixed rule calls each result "in"
or "out".  With probability 97.5 % each, hits are at least h and false alarms at most a
(Clopper and Pearson, 1934).  If the trainer is (ε, δ)-private, then

    ε >= ln((h - δ) / a)    and    ε >= ln((1 - a - δ) / (1 - h)),

so with 95 % confidence ε is at least the larger one.  The rule is chosen on other
trainings.  Jagielski, Ullman and Oprea (2020), arXiv:2006.07709; Nasr and others
(2021), arXiv:2101.04535.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
from markupsafe import Markup

from dpsgd_explorer.accounting import epsilon
from dpsgd_explorer.web.figures.frames import Label, ride
from dpsgd_explorer.web.figures.svg import Frames, Picture, Plot, Point, small
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.examples.toy_problem import SIZE as TOY_SIZE
from dpsgd_explorer.web.hub.examples.toy_training import (
    LEARNING_RATE,
    STEPS,
    Floats,
    best_axis,
    train,
)
from dpsgd_explorer.web.questions.odds import percent_at_most as right_at_most
from dpsgd_explorer.web.questions.rounding import limit

__all__ = [
    "COUNTS",
    "STEPS",
    "TOY_SIZE",
    "audit_picture",
    "most_provable",
    "promised_epsilon",
    "proven_epsilon",
    "right_at_most",
]

SAMPLE_RATE, NOISE, BOUND, DELTA = 0.5, 4.0, 1.0, 1e-3
COUNTS = (50, 100, 200, 400, 800, 1600)  # trainings per world
PLAYED = tuple(round(50 * 2 ** (i / 4)) for i in range(21))  # the slider's positions
LOUDEST = "noise divided twice"
PILOTS = 800
SEED = 700
EACH_SIDE = 0.975
EXPECTED = SAMPLE_RATE * toy.SIZE
Trainer = Callable[[int, bool, int], Floats]


def as_promised(count: int, with_odd: bool, seed: int) -> Floats:
    """Returns θ of correct trainings; [M, 2]."""
    return _train(count, with_odd, seed, NOISE)


def divided_twice(count: int, with_odd: bool, seed: int) -> Floats:
    """Returns θ of trainings whose noise is divided twice by the batch size."""
    return _train(count, with_odd, seed, NOISE / EXPECTED)


def clipped_mean(count: int, with_odd: bool, seed: int) -> Floats:
    """Returns θ of trainings that clip the batch's mean instead of each record."""
    source = np.random.default_rng(seed)
    points = np.array(toy.records())[: toy.SIZE if with_odd else toy.ODD]
    inputs = np.column_stack([points[:, 0], np.ones(len(points))])
    theta = np.zeros((count, 2))
    for _ in range(STEPS):
        drawn = source.random((count, len(points))) < SAMPLE_RATE
        mean = ((theta @ inputs.T - points[:, 1]) * drawn) @ inputs / EXPECTED
        length = np.linalg.norm(mean, axis=1, keepdims=True)
        mean *= np.minimum(1.0, BOUND / np.maximum(length, 1e-12))
        noise = source.normal(0.0, NOISE * BOUND / EXPECTED, (count, 2))
        theta -= LEARNING_RATE * (mean + noise)
    return theta


def _train(count: int, with_odd: bool, seed: int, noise_multiplier: float) -> Floats:
    return train(
        count,
        with_odd=with_odd,
        sample_rate=SAMPLE_RATE,
        noise_multiplier=noise_multiplier,
        max_grad_norm=BOUND,
        seed=seed,
    )


@dataclass(frozen=True)
class Audited:
    """One trainer, its colour, and the bound after each number of ``PLAYED``."""

    name: str
    css: str
    played: tuple[float, ...]

    @property
    def bounds(self) -> tuple[float, ...]:
        """Bound after each number of ``COUNTS``."""
        return tuple(self.played[PLAYED.index(count)] for count in COUNTS)


def lower_bound(hits: int, alarms: int, count: int, delta: float = DELTA) -> float:
    """Returns ε's lower bound at 95 % confidence, at least 0.

    Args:
        hits: Right calls "in", of ``count`` trainings with the record.
        alarms: Wrong calls "in", of ``count`` trainings without it.
        count: Trainings per world.
        delta: δ of the declared guarantee.
    """
    h = (
        float(scipy.special.betaincinv(hits, count - hits + 1, 1 - EACH_SIDE))
        if hits
        else 0.0
    )
    a = (
        1.0
        if alarms == count
        else float(scipy.special.betaincinv(alarms + 1, count - alarms, EACH_SIDE))
    )
    logs = [0.0]
    if h > delta:
        logs.append(math.log((h - delta) / a))
    if 1 - a > delta:
        logs.append(math.log((1 - a - delta) / (1 - h)))
    return max(logs)


@cache
def audited() -> tuple[Audited, ...]:
    """Returns the audits of the three trainers."""
    trainers: tuple[tuple[str, str, Trainer], ...] = (
        (LOUDEST, "attack", divided_twice),
        ("the mean is clipped", "attack dashed", clipped_mean),
        ("as promised", "private", as_promised),
    )
    return tuple(
        Audited(name, css, tuple(_bounds(trainer, SEED + 10 * number)))
        for number, (name, css, trainer) in enumerate(trainers)
    )


def promised() -> float:
    """Returns the ε that all three trainers declare."""
    return epsilon(
        sample_rate=SAMPLE_RATE, noise_multiplier=NOISE, steps=STEPS, delta=DELTA
    )


def promised_epsilon() -> str:
    """Returns the declared ε as text, rounded up."""
    return limit(promised())


def proven_epsilon(name: str) -> str:
    """Returns a trainer's last bound as text, rounded down."""
    [bound] = [a.bounds[-1] for a in audited() if a.name == name]
    return _down(bound)


def most_provable(count: int) -> str:
    """Returns the maximum bound with ``count`` trainings per world, as text."""
    return _down(lower_bound(count, 0, count))


def _down(bound: float) -> str:
    """Returns a lower bound as text, rounded down."""
    return f"{math.floor(100 * bound) / 100:.2f}"


def _bounds(trainer: Trainer, seed: int) -> list[float]:
    pilots = [trainer(PILOTS, is_in, seed + is_in) for is_in in (False, True)]
    axis, _ = best_axis(pilots[0], pilots[1])
    cut = _best_cut(pilots[0] @ axis, pilots[1] @ axis)
    worlds = [trainer(COUNTS[-1], is_in, seed + 2 + is_in) for is_in in (False, True)]
    calls = [world @ axis > cut for world in worlds]
    return [
        lower_bound(int(calls[1][:count].sum()), int(calls[0][:count].sum()), count)
        for count in PLAYED
    ]


def _best_cut(without: Floats, with_it: Floats) -> float:
    """Returns the threshold with the largest bound on the pilots."""
    cuts = np.quantile(np.concatenate([without, with_it]), np.linspace(0.02, 0.98, 49))
    bounds = [
        lower_bound(int((with_it > c).sum()), int((without > c).sum()), len(without))
        for c in cuts
    ]
    return float(cuts[int(np.argmax(bounds))])


@cache
def audit_picture() -> Picture:
    """Returns the bounds against the number of trainings, and the declared ε."""
    return Picture(
        title=_title(len(PLAYED) - 1),
        sub=(
            f"Lower bound on ε at δ = {small(DELTA)}, 95 % confidence, odd record in "
            f"or out; all declare σ = {NOISE:g}, q = {SAMPLE_RATE:g}, {STEPS} steps"
        ),
        wide=_draw((904, 340), narrow=False),
        narrow=_draw((342, 320), narrow=True),
        head=("trainings per world", *(a.name for a in audited())),
        rows=tuple(
            (f"{n:,}", *(_down(a.bounds[i]) for a in audited()))
            for i, n in enumerate(COUNTS)
        ),
        kind="illustration",
        note="Made-up records, seeded noise, real training, planted faults. The "
        "exact accountant computes the promise, for one record added or "
        "removed. A trainer with a fault does not have the ε that it declares.",
        is_private=False,
        frames=Frames(
            name="Trainings per world",
            places=tuple(f"{count:,}" for count in PLAYED),
            titles=tuple(map(_title, range(len(PLAYED)))),
            still=len(PLAYED) - 1,
        ),
    )


def _title(place: int) -> str:
    """Returns the figure's conclusion after a number of trainings."""
    bounds = {audit.name: audit.played[place] for audit in audited()}
    start = f"All three promise ε = {promised_epsilon()}; after {PLAYED[place]:,} "
    proven = _down(bounds[LOUDEST])
    if max(bounds.values()) <= promised():
        return (
            f"{start}trainings per world the audit proves at most {proven}, and "
            "nobody is caught"
        )
    return (
        f"{start}trainings per world the audit proves {proven} for the trainer that "
        "divides its noise twice"
    )


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    top = 1.15 * max(max(audit.bounds) for audit in audited())
    plot = Plot.framed(size, (COUNTS[0], COUNTS[-1]), (0, top), log_x=True, right=20)
    plot.y_axis([(y, f"{y}") for y in range(int(top) + 1)], "ε")
    plot.x_axis([(n, f"{n:,}") for n in COUNTS], "trainings per world, log scale")
    edge = [(COUNTS[0], promised()), (COUNTS[-1], promised())]
    plot.line(edge, "s-budget")
    words = f"promised: {promised_epsilon()}"
    plot.text(edge[0], words, "budget halo", "start", (6, -8))
    for audit in audited():
        line: list[Point] = list(zip(PLAYED, audit.played, strict=True))
        colour = audit.css.split()[0]
        label = Label(
            words=tuple(f"{audit.name}: {_down(bound)}" for bound in audit.played),
            css=f"{colour} halo",
            anchor="end",
            shift=(0, 46 if "dashed" in audit.css else -12),
            fixed=line[-1],
        )
        ride(
            plot,
            line,
            f"s-{audit.css}",
            still=len(line) - 1,
            fill=f"f-{colour}",
            grows=True,
            label=label,
        )
    return plot.svg(
        "Three rising lines of lower bounds over the number of trainings. Two cross "
        "the level of the promise, the third stays below it."
    )


thumbnail = audit_picture
