"""Two worlds: private trainings with one odd record and without it, and an attacker.

The browser trains, by arithmetic on 24 points; everything about ε comes from here.

The limit of any attack is shipped as straight lines.  For every ε' the pair
(ε', δ(ε')) allows at most e^ε' FPR + δ(ε') true positives, and in the other order
1 - e^-ε' (1 - δ(ε') - FPR): the least of all these lines is the trade-off curve (Dong,
Roth and Su 2019, arXiv:1905.02383v3, Proposition 2.5).  With δ(ε') rounded up at
``LINES`` values of ε' it is a bound, so the browser reads it to the safe side.

Misconception: "Compare the two models' weights to see whether a record was there", "ε =
    3 is 3 % of something", and "a dot beyond the limit breaks the promise"
Content: two clouds of 200 trainings, an attacker's hits and false alarms with 95 %
    intervals at a threshold one drags, and the limit for every attack; the odd record
    can be dragged, and both worlds are trained again: hits follow it, ε and the limit
    do not, since C bounds what any record can do
Source: limit: trade-off curve, Dong, Roth and Su 2019, arXiv:1905.02383; ε and δ(ε)
    from the exact accountant; band and tail: Balle and Wang 2018, arXiv:1805.06530;
    intervals: Wilson 1927
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from markupsafe import Markup

from dpsgd_explorer.accounting import (
    Phase,
    PrivacyLossDistribution,
    epsilon,
)
from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.forms.starts import Choices, Span
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.examples.toy_training import (
    LEARNING_RATE,
    STEPS,
    best_axis,
    train,
)
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.odd_record import RECORD
from dpsgd_explorer.web.questions.odds import (
    EPSILON_ALONE,
    EXACT,
    RELATION,
    THIS_RUN,
    Limits,
)
from dpsgd_explorer.web.questions.rounding import limit, percent

DELTA = 1e-3
RATES = (1.0, 0.5, 0.25)
NOISE = tuple(
    round(2 ** (i / 3), 3) for i in range(13)
)  # 1 to 16, three values per doubling
LINES = 14
PER_EPSILON = 12  # bins of the privacy loss from 0 to ε, so that ε is an edge
REACH = 1.5  # of the bins, in units of ε, to either side
FINE = 10  # losses of the accountant's grid per bin
BINS = round(2 * REACH * PER_EPSILON)
SHOWN_RATE, SHOWN_NOISE = 0.5, 6  # the first state: q, and the place of σ = 4
BOUND = 1.0
PILOTS = 400  # other trainings per world, on which the attacker chooses its axis
COUNTS = (200, 1000)  # trainings per world that are counted
MANY = 1000  # trainings per world of the shares that text and table quote
SEED = 14


@cache
def spent(rate: float, noise: float) -> float:
    """Returns ε of the whole training at ``DELTA``."""
    return epsilon(sample_rate=rate, noise_multiplier=noise, steps=STEPS, delta=DELTA)


def limit_lines(rate: float, noise: float) -> list[tuple[float, float]]:
    """Returns (e^ε', δ(ε') rounded up), from ε' = 0 to ε at ``DELTA``."""
    top = spent(rate, noise)
    losses = [top * i / (LINES - 1) for i in range(LINES)]
    deltas = EXACT.delta_bounds([Phase(rate, noise, STEPS)], losses, RELATION)
    return [
        (_upwards(math.exp(loss), 6), math.ceil(1e5 * side.value) / 1e5)
        for loss, side in zip(losses, deltas, strict=True)
    ]


def most_hits(lines: list[tuple[float, float]], false_alarms: float) -> float:
    """Returns the largest share of hits that the lines allow."""
    rising = (slope * false_alarms + delta for slope, delta in lines)
    falling = (1 - (1 - delta - false_alarms) / slope for slope, delta in lines)
    return min(1.0, *rising, *falling)


def loss_bins(rate: float, noise: float) -> dict[str, Any]:
    """Returns the privacy loss of the whole run, binned over ±``REACH`` ε.

    ``with`` and ``without`` are probabilities in units of the largest bin, which is
    ``largest``; ``beyond`` contains the contribution to δ of each bin above ε, in units
    of ``DELTA``.
    """
    top = spent(rate, noise)
    run = [Phase(rate, noise, STEPS)]
    grid = top / (PER_EPSILON * FINE)
    remove, add = PrivacyLossDistribution.of(run, interval=grid).directions
    excess = np.maximum(-np.expm1(top - remove.losses), 0.0) * remove.probabilities
    sums = []
    for law, weights, sign in (
        (remove, remove.probabilities, 1),
        (add, add.probabilities, -1),  # the opposite order of neighbours
        (remove, excess, 1),
    ):
        places = sign * (law.first + np.arange(len(weights))) // FINE + BINS // 2
        inside = (places >= 0) & (places < BINS)
        sums.append(np.bincount(places[inside], weights[inside], BINS))
    largest = max(float(sums[0].max()), float(sums[1].max()))
    return {
        "largest": float(f"{largest:.4g}"),
        "with": _rounded(sums[0] / largest, 2),
        "without": _rounded(sums[1] / largest, 2),
        "beyond": _rounded(sums[2][BINS // 2 + PER_EPSILON :] / DELTA, 3),
    }


@cache
def data() -> dict[str, Any]:
    """Returns the records, the training, and both limits at each q and σ.

    ``most`` has the two limits in percent, in the order of their names in ``limits``.
    """
    return {
        "limits": [THIS_RUN, EPSILON_ALONE],
        "records": [[round(x, 6), round(y, 6)] for x, y in toy.records()],
        "odd": toy.ODD,
        "x_range": toy.X_RANGE,
        "y_range": toy.Y_RANGE,
        "steps": STEPS,
        "learning_rate": LEARNING_RATE,
        "delta": DELTA,
        "reach": REACH,
        "pilots": PILOTS,
        "counts": COUNTS,
        "noise": NOISE,
        "first": {"rate": RATES.index(SHOWN_RATE), "noise": SHOWN_NOISE},
        "rates": [
            {
                "sample_rate": rate,
                "points": [
                    {
                        "epsilon": limit(spent(rate, noise)),
                        "most": list(limits_at(noise, rate).percents.values()),
                        "lines": limit_lines(rate, noise),
                        **loss_bins(rate, noise),
                    }
                    for noise in NOISE
                ],
            }
            for rate in RATES
        ],
    }


@cache
def right_calls(noise_multiplier: float, sample_rate: float, steps: int) -> float:
    """Returns the accuracy of an attacker that knows trainings in both worlds.

    It sees one final θ and classifies it along the axis that separated other trainings
    best. Measured on ``MANY`` trainings per world.
    """
    run = (noise_multiplier, sample_rate, steps)
    false_alarms, hits = _calls(*run, cuts=[0.0])[0]
    return (hits + 1 - false_alarms) / 2


def shown_right(noise_multiplier: float) -> str:
    """Returns ``right_calls`` at the first state's q in percent, to nearest."""
    return f"{percent(right_calls(noise_multiplier, SHOWN_RATE, STEPS), 0)} %"


def scatter(count: int) -> str:
    """Returns twice the largest standard error of a share of ``count``, in points."""
    return f"{100 / math.sqrt(count):.0f}"


def limits_at(noise_multiplier: float, rate: float = SHOWN_RATE) -> Limits:
    """Returns the largest share of right calls, of this run and by ε alone."""
    run = Phase(rate, noise_multiplier, STEPS)
    return Limits.of([run], spent(rate, noise_multiplier), DELTA)


@cache
def picture() -> Picture:
    """Returns the attacker's shares at every threshold, below the limit."""
    most = limits_at(NOISE[SHOWN_NOISE])
    return Picture(
        title=(
            f"The attacker is right {shown_right(NOISE[SHOWN_NOISE])} of the time; "
            f"any attack at most ({most})"
        ),
        sub=(
            f"DP-SGD on a line through {toy.SIZE} points, with one odd record and "
            f"without it: {STEPS} steps, q = {SHOWN_RATE:g}, σ = "
            f"{NOISE[SHOWN_NOISE]:g}; one line per threshold"
        ),
        wide=_draw((904, 380)),
        narrow=_draw((342, 340)),
        head=(
            "σ",
            f"ε at δ = {DELTA:g}",
            "attacker right, %",
            f"right at most, %, {THIS_RUN}",
            f"right at most, %, {EPSILON_ALONE}",
        ),
        rows=tuple(
            (
                f"{NOISE[i]:g}",
                data()["rates"][RATES.index(SHOWN_RATE)]["points"][i]["epsilon"],
                shown_right(NOISE[i]).removesuffix(" %"),
                *limits_at(NOISE[i]).percents.values(),
            )
            for i in range(0, len(NOISE), 3)
        ),
        kind="illustration",
        status="bound",
        note=(
            f"Made-up records and seeded noise, real training: {MANY:,} per world in "
            "this picture, both equally likely. The drawn limit of this run holds "
            "for every attack; one record added or removed."
        ),
    )


def _calls(
    noise_multiplier: float, sample_rate: float, steps: int, cuts: list[float]
) -> list[tuple[float, float]]:
    """Returns false alarms and hits at thresholds, in units of the scores' std."""
    worlds = [
        train(
            2 * MANY,
            with_odd=with_odd,
            sample_rate=sample_rate,
            noise_multiplier=noise_multiplier,
            max_grad_norm=BOUND,
            seed=SEED + with_odd,
            steps=steps,
        )
        for with_odd in (False, True)
    ]
    axis, middle = best_axis(worlds[0][:MANY], worlds[1][:MANY])
    scores = [world[MANY:] @ axis - middle for world in worlds]
    spread = float(np.std(scores[0]))
    without, with_it = (np.array(score) / spread for score in scores)
    return [(float((without > c).mean()), float((with_it > c).mean())) for c in cuts]


def _draw(size: tuple[int, int]) -> Markup:
    plot = Plot.framed(size, (0.0, 1.0), (0.0, 1.0), left=48, top=34)
    lines = limit_lines(SHOWN_RATE, NOISE[SHOWN_NOISE])
    shares = [(i / 60) ** 2 for i in range(61)]
    most = [(share, most_hits(lines, share)) for share in shares]
    plot.path([*most, (0, 1)], "f-wash-budget", close=True)
    ticks = [(0, "0 %"), (0.5, "50 %"), (1, "100 %")]
    plot.y_axis(ticks, "hits: the record was there, and is called")
    plot.x_axis(ticks, "false alarms")
    plot.line([(0, 0), (1, 1)], "thin s-faint dotted")
    plot.line(most, "s-budget")
    cuts = [6 - 0.2 * i for i in range(61)]
    attack = _calls(NOISE[SHOWN_NOISE], SHOWN_RATE, STEPS, cuts)
    plot.line([(0, 0), *attack, (1, 1)], "s-attack")
    plot.text((0.03, 0.93), "no attack gets here", "budget")
    plot.text((0.56, 0.62), "the attacker", "attack halo", shift=(8, 14))
    return plot.svg(
        "Hits against false alarms: the attacker’s curve is above the diagonal of "
        "pure guessing and below the limit that the accountant computes."
    )


def _upwards(value: float, digits: int) -> float:
    """Returns the value rounded up to ``digits`` significant digits."""
    scale = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return float(f"{math.ceil(value / scale - 1e-9) * scale:.{digits}g}")


def _rounded(values: Any, digits: int) -> list[float]:
    return [round(float(value), digits) for value in values]


WIDGET = Widget(
    slug="two-worlds",
    title="Two worlds",
    picture=picture,
    data=data,
    controls={
        "noise": "Noise multiplier σ",
        "bound": "Clipping bound C",
        "record": "The odd record",
        "rate": "Sampling rate q",
        "count": "Trainings per world",
        "again": "Draw others",
        "threshold": "The attacker’s threshold",
    },
    starts={
        "noise": (Choices(NOISE),),
        "bound": (Span(0.25, 4, doublings=True),),
        "record": RECORD,
        "rate": (Choices(RATES),),
        "count": (Choices(COUNTS, by_place=False),),
        "threshold": (Span(-5, 5),),  # standard deviations
    },
)
