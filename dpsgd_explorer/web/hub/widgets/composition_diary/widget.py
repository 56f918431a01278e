"""A diary of releases from one data set: their ε added up, and counted together.

Three kinds of releases: a run of the trainer's default, a sum with Gaussian noise, and
a count with geometric noise.  A count has only the losses ±ε, with the probabilities of
a randomised answer, and δ = 0.

The exact accountant composes their losses.  ``FILTER`` adds Rényi divergences at a
fixed order, so it is also valid for releases that are chosen adaptively.

Source: geometric noise: Ghosh, Roughgarden and Sundararajan (2009), arXiv:0811.2841;
its Rényi divergences: Mironov (2017), arXiv:1702.07476, Proposition 5.

Misconception: “ε simply adds up”, “each project has a budget of its own”, and “a total
    may be watched and then decided upon”
Content: a diary of runs, sums and counts under one budget, kept in three ways: added
    up, composed, or by a filter; what would exceed the budget is refused
Source: together: the exact accountant’s losses, composed, with Connect the Dots,
    Doroshenko et al. 2022, arXiv:2207.04380; filter: Feldman and Zrnic 2021,
    arXiv:2008.11193; counts: Ghosh, Roughgarden and Sundararajan 2009, arXiv:0811.2841
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from markupsafe import Markup

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import (
    LossDistribution,
    Phase,
    PrivacyLossDistribution,
    RdpCurve,
    RenyiFilter,
)
from dpsgd_explorer.web.figures.svg import Picture, Plot, Point, small
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.examples.default_run import default_plan, noise_for
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.rounding import limit, percent_limit

DELTA = 1e-5
BUDGET = 3.0
RUN, SUM, COUNT = "run", "sum", "count"
ALONE = {RUN: 1.0, SUM: 1.0, COUNT: 0.5}  # ε of one release
LABELS = {RUN: "a run of DP-SGD", SUM: "a noisy sum", COUNT: "a noisy count"}
GRID = ALONE[COUNT] / 256  # of the privacy losses, so that ±0.5 are on it
SHOWN = (RUN, SUM, COUNT) * 3  # the diary of the picture

Counts = tuple[int, int, int]  # of each kind, in the order of ALONE


@dataclass(frozen=True)
class Entry:
    """Spent budget of a diary, by three methods.

    Attributes:
        added: Sum of the ε of each release at its share of δ.
        together: ε of all releases by composition.
        filtered: Share of the filter's budget; a share above 1 is rejected.
    """

    added: float
    together: float
    filtered: float

    @property
    def words(self) -> list[str]:
        """The numbers as text, the share in percent."""
        return [
            limit(self.added),
            limit(self.together),
            percent_limit(self.filtered, 0),
        ]


def phase(kind: str) -> Phase:
    """Returns a run or a sum as a phase of the accountant."""
    if kind == SUM:
        noise = accounting.gaussian_noise_multiplier(epsilon=ALONE[SUM], delta=DELTA)
        return Phase(1.0, noise, 1)
    plan = default_plan()
    return Phase(plan.sample_rate, noise_for(ALONE[RUN], plan.steps), plan.steps)


@cache
def losses(kind: str) -> PrivacyLossDistribution:
    """Returns the privacy losses of one release."""
    if kind != COUNT:
        return PrivacyLossDistribution.of([phase(kind)], interval=GRID)
    size = round(ALONE[COUNT] / GRID)
    row = np.zeros(2 * size + 1)
    row[-1] = 1 / (1 + math.exp(-ALONE[COUNT]))
    row[0] = 1 - row[-1]
    direction = LossDistribution(GRID, -size, row)
    return PrivacyLossDistribution((direction, direction))


@cache
def divergences(kind: str) -> RdpCurve:
    """Returns the Rényi divergences of one release."""
    if kind != COUNT:
        return RdpCurve.of([phase(kind)])
    orders, e = RdpCurve.of([]).orders, ALONE[COUNT]
    log_moments = np.logaddexp(orders * e, (1 - orders) * e) - np.logaddexp(e, 0.0)
    return RdpCurve(orders, np.asarray(log_moments / (orders - 1)))


@cache
def added_up(counts: Counts) -> float:
    """Returns the sum of each release's ε; sums and runs share δ evenly."""
    runs, sums, tables = counts
    share = DELTA / max(runs + sums, 1)
    run, gaussian_sum = phase(RUN), phase(SUM)
    spent = tables * ALONE[COUNT]
    if runs:
        spent += runs * accounting.epsilon(
            sample_rate=run.sample_rate,
            noise_multiplier=run.noise_multiplier,
            steps=run.steps,
            delta=share,
        )
    if sums:
        spent += sums * accounting.gaussian_epsilon(
            delta=share, noise_multiplier=gaussian_sum.noise_multiplier
        )
    return spent


@cache
def composed(counts: Counts) -> PrivacyLossDistribution:
    """Returns the losses of all releases of a diary that is not empty."""
    kind, before = _last(counts)
    if not any(before):
        return losses(kind)
    return composed(before).compose(losses(kind))


@cache
def entry(counts: Counts) -> Entry:
    """Returns the spent budget of a diary with the given numbers of releases."""
    gate = RenyiFilter(BUDGET, DELTA)
    spent = sum(
        count * float(divergences(kind).at([gate.order])[0])
        for kind, count in zip(ALONE, counts, strict=True)
    )
    added = added_up(counts)
    together = composed(counts).epsilon(DELTA) if any(counts) else 0.0
    return Entry(added, min(added, together), spent / gate.budget)


@cache
def table() -> dict[Counts, Entry]:
    """Returns all diaries within the budget, and those with one release more."""
    entries: dict[Counts, Entry] = {}
    waiting: list[Counts] = [(0, 0, 0)]
    while waiting:
        counts = waiting.pop()
        if counts in entries:
            continue
        entries[counts] = entry(counts)
        if is_within(entries[counts].together):
            waiting += [_and_one(counts, kind) for kind in ALONE]
    return entries


def is_within(epsilon: float) -> bool:
    """Returns True if an ε as printed is within the budget."""
    return float(limit(epsilon)) <= BUDGET


def data() -> dict[str, Any]:
    """Returns all diaries by their counts, as text."""
    return {
        "budget": BUDGET,
        "delta": small(DELTA),
        "kinds": [{"kind": kind, "label": LABELS[kind]} for kind in ALONE],
        "spent": {
            "".join(map(str, counts)): entry.words for counts, entry in table().items()
        },
    }


def shown() -> list[tuple[str, Entry]]:
    """Returns the releases of the figure's diary, each with the budget spent so far.

    It ends with the first release that exceeds the budget if counted together.
    """
    rows: list[tuple[str, Entry]] = []
    counts: Counts = (0, 0, 0)
    for kind in SHOWN:
        counts = _and_one(counts, kind)
        rows.append((kind, entry(counts)))
        if not is_within(rows[-1][1].together):
            break
    return rows


@cache
def picture() -> Picture:
    """Returns the ε by both methods against the number of releases."""
    rows = shown()
    kept = [spent for _, spent in rows if is_within(spent.together)]
    adding = sum(is_within(spent.added) for spent in kept)
    return Picture(
        title=(
            f"A budget of ε = {BUDGET:g} lasts for {adding} releases if their ε are "
            f"added up, for {len(kept)} if they are counted together"
        ),
        sub=(
            f"ε at δ = {small(DELTA)} of runs and sums (ε = {ALONE[RUN]:g} each) and "
            f"counts (ε = {ALONE[COUNT]:g}, δ = 0), one record added or removed"
        ),
        wide=_draw((904, 300)),
        narrow=_draw((342, 280)),
        head=("release", "added up", "together", "share of a filter, %"),
        rows=tuple((LABELS[kind], *spent.words) for kind, spent in rows),
        kind="computed",
        status="bound",
        note=(
            "Together: composed from the exact accountant’s losses. Added up: each "
            "with an even share of δ."
        ),
    )


def _draw(size: tuple[int, int]) -> Markup:
    rows = shown()
    top = 1.12 * max(spent.added for _, spent in rows)
    plot = Plot.framed(size, (0, len(rows)), (0, top), right=24)
    plot.y_axis([(value, f"{value}") for value in range(math.ceil(top))], "ε")
    plot.x_axis([(i, f"{i}") for i in range(len(rows) + 1)], "releases")
    plot.line([(0, BUDGET), (len(rows), BUDGET)], "s-budget")
    for name, css, dashed in (
        ("added", "twin", " dashed"),
        ("together", "private", ""),
    ):
        points: list[Point] = [(0, 0)]
        points += [
            (i, getattr(spent, name)) for i, (_, spent) in enumerate(rows, start=1)
        ]
        plot.line(points, f"s-{css}{dashed}")
        place, words, shift = (
            (-2, "added up", (-6, -8)) if dashed else (-3, name, (12, 26))
        )
        plot.text(points[place], words, f"{css} halo", "end", shift)
    plot.text((0, BUDGET), "budget", "budget halo", shift=(6, -7))
    return plot.svg(
        "Two rising lines over the number of releases: added up reaches the budget "
        "first, counted together later."
    )


def _and_one(counts: Counts, kind: str) -> Counts:
    runs, sums, tables = (
        count + (kind == other) for other, count in zip(ALONE, counts, strict=True)
    )
    return runs, sums, tables


def _last(counts: Counts) -> tuple[str, Counts]:
    """Returns a kind in the diary, and the diary without one release of this kind."""
    kind, place = next(
        (kind, place) for place, kind in enumerate(ALONE) if counts[place]
    )
    runs, sums, tables = (count - (i == place) for i, count in enumerate(counts))
    return kind, (runs, sums, tables)


WIDGET = Widget(
    slug="composition-diary",
    title="A diary of releases",
    picture=picture,
    data=data,
    controls={
        "way": "How ε is counted: 1 added up, 2 together, 3 by a filter",
        "releases": "Releases",
    },
    starts={"way": (Choices((1, 2, 3)),)},
)
