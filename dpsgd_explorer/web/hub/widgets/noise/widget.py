"""One slider on the landing page: noise merges the two worlds, and costs accuracy.

``record.py`` recorded the runs.  The two worlds of a level are distributions of the
likelihood ratio of all steps, the best statistic for an attacker.  They are shown on a
scale z on which the world without the record is standard normal.  The density of the
other world is φ(z) e^l(z), where l is the privacy loss.

Misconception: "Privacy and accuracy are traded evenly", and "a limit means that nothing
    can be told"
Content: both worlds of a whole run as the best attacker sees them, merging as σ grows,
    next to accuracies measured at nine noise levels and the attacker's limit; accuracy
    hardly moves while the limit falls to a coin's
Source: limit: exact trade-off curve, Dong, Roth and Su 2019, arXiv:1905.02383;
    accuracies: `web/hub/widgets/noise/record.py`
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import mean
from typing import Any
from urllib.parse import urlencode

import numpy as np
import scipy
from markupsafe import Markup

from dpsgd_explorer.accounting import (
    Phase,
    PrivacyLossDistribution,
    epsilon,
)
from dpsgd_explorer.accounting.core.intervals import Floats
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.figures.svg import Picture, Plot, small
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.odds import EPSILON_ALONE, THIS_RUN, Limits
from dpsgd_explorer.web.questions.rounding import limit, percent
from dpsgd_explorer.web.recorded.files import recording

stored = partial(recording, "recorded", Path(__file__).parent)
SHOWN = 0  # index of the initial level
PLACES = np.linspace(-4.0, 9.0, 105)  # z of both densities
BINS = 400  # of the privacy loss from 0 to ε
COIN = 50.0  # percent of right guesses without any information
MERGED = 55.0  # percent of right guesses: at most this is hardly better than a coin
BROKEN = 90.0  # percent of accuracy: below, the model is of little use
CLEAR = 90.0  # percent of right guesses: from here, an attacker is nearly sure


@dataclass(frozen=True)
class Level:
    """One noise level: its settings, its accuracy, and the limits of any attack."""

    config: TrainingConfig
    accuracy: float

    @property
    def noise(self) -> float:
        """Noise multiplier σ."""
        return self.config.plan.noise_multiplier

    @property
    def phase(self) -> Phase:
        """The run as a phase of the accountant."""
        plan = self.config.plan
        return Phase(plan.sample_rate, plan.noise_multiplier, plan.steps)

    @property
    def epsilon(self) -> float:
        """ε of the run."""
        plan = self.config.plan
        return epsilon(
            sample_rate=plan.sample_rate,
            noise_multiplier=plan.noise_multiplier,
            steps=plan.steps,
            delta=plan.delta,
        )

    @property
    def limits(self) -> Limits:
        """Limits on an attacker's accuracy."""
        return Limits.of([self.phase], self.epsilon, self.config.plan.delta)

    @property
    def words(self) -> dict[str, str]:
        """The numbers as text."""
        return {
            "noise": f"{self.noise:g}",
            "epsilon": limit(self.epsilon),
            "accuracy": percent(self.accuracy),
            "limit": self.limits.percents[THIS_RUN],
            "alone": self.limits.percents[EPSILON_ALONE],
        }


@cache
def levels() -> tuple[Level, ...]:
    """Returns all levels, from little noise to much."""
    all_levels = []
    for recorded in stored()["levels"]:
        chosen = {"noise_multiplier": recorded["noise_multiplier"]}
        config = TrainingConfig.parse(stored()["config"] | chosen)
        all_levels.append(Level(config, mean(recorded["test_accuracy"])))
    return tuple(all_levels)


def _sentence(most: float, accuracy: float) -> str:
    """Returns a sentence about one level of noise."""
    if accuracy < BROKEN:
        return "Now the noise hides the digits, too: private, and of little use."
    if most <= MERGED:
        return (
            "The curves have merged: an attacker might as well toss a coin, and the "
            "model still reads."
        )
    if most >= CLEAR:
        return "Little noise: an attacker is nearly sure whether 24 was in."
    return "Closer, but an attacker still has an advantage. Go on."


def _shown(level: Level) -> dict[str, Any]:
    """Returns a level as the script shows it: texts, the curve, and reached goals."""
    most, accuracy = float(level.words["limit"]), float(level.words["accuracy"])
    return level.words | {
        "words": _sentence(most, accuracy),
        "is_merged": most <= MERGED,
        "is_broken": accuracy < BROKEN,
        "with": density_with(level),
    }


def density_with(level: Level) -> list[float]:
    """Returns the density of the world with the record, at ``PLACES``."""
    grid = level.epsilon / BINS
    law = PrivacyLossDistribution.of([level.phase], interval=grid).directions[0]
    with_it = np.asarray(law.probabilities)
    without = with_it * np.exp(-law.losses)
    tails = np.cumsum(without[::-1])[::-1] - without / 2
    is_inside = (tails > 0) & (tails < 1)
    places = -scipy.special.ndtri(tails[is_inside])
    rising = np.concatenate([[True], np.diff(np.maximum.accumulate(places)) > 0])
    losses = np.interp(PLACES, places[rising], law.losses[is_inside][rising])
    values = np.exp(_log_normal(PLACES) + losses)
    return [round(float(value), 4) for value in values]


def _log_normal(places: Floats) -> Floats:
    """Returns the log of the standard normal density."""
    return np.asarray(-(places**2) / 2 - math.log(math.sqrt(2 * math.pi)))


@cache
def data() -> dict[str, Any]:
    """Returns the numbers of each level as text, and both densities."""
    shared = to_query(levels()[0].config)
    for name in ("noise_multiplier", "target_epsilon", "evaluations"):
        shared.pop(name, None)
    return {
        "first": SHOWN,
        "coin": COIN,
        "query": urlencode(shared),
        "places": [round(float(place), 3) for place in PLACES],
        "without": [round(float(value), 4) for value in np.exp(_log_normal(PLACES))],
        "levels": [_shown(level) for level in levels()],
    }


def settings() -> str:
    """Returns the shared settings of all runs, in words."""
    config = levels()[0].config
    seeds = len(stored()["seeds"])
    return (
        f"{config.data.label}, {MODELS[config.model].label.lower()}, "
        f"{config.plan.steps} steps of {config.plan.expected_batch_size:,} expected "
        f"records, C = {config.max_grad_norm:g}, learning rate "
        f"{config.learning_rate:g}; mean of {seeds} seeds"
    )


@cache
def picture() -> Picture:
    """Returns accuracy and the attacker's limit at all noise levels."""
    calm, few = levels()[SHOWN].words, levels()[4].words
    delta = levels()[0].config.plan.delta
    return Picture(
        title=(
            f"From σ = {calm['noise']} to σ = {few['noise']} the attacker’s limit on "
            f"{THIS_RUN} falls from {calm['limit']} to {few['limit']} %, the accuracy "
            f"from {calm['accuracy']} to {few['accuracy']} %"
        ),
        sub=settings(),
        wide=_draw((1104, 300)),
        narrow=_draw((342, 260)),
        head=(
            "σ",
            f"ε at δ = {small(delta)}",
            "accuracy, %",
            f"attacker right at most, %, {THIS_RUN}",
            f"attacker right at most, %, {EPSILON_ALONE}",
        ),
        rows=tuple(tuple(level.words.values()) for level in levels()),
        kind="recorded",
        status="bound",
        note=(
            "The attacker sees every step, knows all other records and starts at "
            "even odds; one record added or removed, Poisson sampling. “This run” is "
            "the limit of this mechanism, over all its steps; “ε alone” covers every "
            "procedure with this ε and δ, so it allows more. Accuracy is on public "
            "test records; the learning rate suits little noise."
        ),
    )


def humps(size: tuple[int, int]) -> Markup:
    """Returns the two curves of the first level: before the script, and on a door."""
    peak = density_with(levels()[SHOWN])
    top = max(*peak, *data()["without"])
    ends = float(PLACES[0]), float(PLACES[-1])
    plot = Plot.framed(size, ends, (0, top), left=4, right=4, top=18, bottom=26)
    with_it = list(zip(PLACES.tolist(), peak, strict=True))
    without = list(zip(PLACES.tolist(), data()["without"], strict=True))
    shared = [(x, min(y, z)) for (x, y), (_, z) in zip(with_it, without, strict=True)]
    plot.area(with_it, "f-wash-private", 0)
    plot.area(shared, "f-area", 0)
    plot.path([(ends[0], 0), (ends[1], 0)], "axis")
    plot.line(without, "s-private dashed")
    plot.line(with_it, "s-private")
    return plot.svg(
        "Two curves: what an attacker sees with record 24, and, dashed, without it."
    )


def _draw(size: tuple[int, int]) -> Markup:
    ends = levels()[0].noise, levels()[-1].noise
    plot = Plot.framed(size, (ends[0] * 0.9, ends[1] * 1.1), (50.0, 100.0), log_x=True)
    plot.y_axis([(y, f"{y} %") for y in (50, 75, 100)], "")
    marks = [level.noise for level in levels()][:: 1 if size[0] > 500 else 2]
    plot.x_axis([(x, f"{x:g}") for x in marks], "noise multiplier σ, log scale")
    limits = [(x.noise, 100 * x.limits.run) for x in levels()]
    reached = [(x.noise, 100 * x.accuracy) for x in levels()]
    plot.line(limits, "s-attack")
    plot.line(reached, "s-private")
    plot.text(limits[3], "attacker at most, this run", "attack halo", "start", (10, -6))
    plot.text(reached[6], "accuracy", "private halo", "start", (6, -12))
    return plot.svg(
        f"Two lines against the noise: the attacker's limit on {THIS_RUN} falls from "
        f"nearly 100 percent to {math.ceil(limits[-1][1])}; accuracy falls later and "
        "more slowly."
    )


#: Only the landing page and the class show this widget.
WIDGET = Widget(
    slug="noise", title="One slider", picture=picture, data=data, controls={}
)
