"""A game about membership: ten records, the visitor and an attacker, and the limits.

Records, models and the attacker's scores come from a recorded attack (``record.py``)
that included each record with probability 1/2.  A game has equal numbers of members and
non-members, so a constant answer scores like a coin.  ``questions.odds`` computes the
limits for this prior.  The intervals are by Clopper and Pearson (1934).

Misconception: "An attacker needs something clever to know who was in", and "who beats a
    coin in one game beats the promise"
Content: ten records of a recorded attack, five of them in, one at a time: the visitor,
    who sees how sure the model is, against a likelihood ratio with shadow models;
    without privacy and with it, next to a coin’s score, the accuracy of the attacked
    model, and both limits by name: of this run, and of ε alone
Source: records, logits and scores recorded by `record.py`; attack: Carlini and others
    2022, arXiv:2112.03570; limit (1 + δ(0))/2 of the exact accountant: Dong, Roth and
    Su 2019, arXiv:1905.02383
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.auditing.error_rates import largest_rate
from dpsgd_explorer.accounting.core.binomial import probability_at_least
from dpsgd_explorer.experiments.attack_config import POOL, STEPS, AttackConfig
from dpsgd_explorer.web.figures.svg import Picture, Plot, small
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.odds import EPSILON_ALONE, THIS_RUN, Limits
from dpsgd_explorer.web.questions.rounding import (
    limit,
    percent,
    percent_limit,
    proven,
    significant,
)
from dpsgd_explorer.web.recorded.files import recording

ROUNDS = 10  # number of records in a game; half of them are members
SEED = 1
ERROR = 0.05  # of an interval, half on either side
RARE = 0.01  # a share below which one decimal of its percents says too little
WITHOUT = "without privacy"


def stored() -> dict[str, Any]:
    """Returns the recorded attacks."""
    return recording("recorded", Path(__file__).parent)


@cache
def limits(place: int) -> Limits | None:
    """Returns the limits of any attack on a model; None without privacy."""
    model = stored()["models"][place]
    if model["epsilon"] is None:
        return None
    plan = AttackConfig.parse(stored()["config"]).plan
    run = Phase(plan.sample_rate, model["noise_multiplier"], plan.steps)
    return Limits.of([run], model["epsilon"], plan.delta)


def spent(place: int) -> str:
    """Returns ε of a private model, rounded up, without decimals that are 0."""
    return limit(stored()["models"][place]["epsilon"]).removesuffix(".00")


def right(place: int) -> str:
    """Returns the attacker's accuracy on all records of a model, in percent."""
    return percent(stored()["models"][place]["right"])


@cache
def interval(place: int) -> tuple[float, float]:
    """Returns the interval of ``right``, assuming independent records."""
    count = round(POOL * stored()["models"][place]["right"])
    return (
        1 - largest_rate(POOL - count, POOL, ERROR / 2),
        largest_rate(count, POOL, ERROR / 2),
    )


def interval_words(place: int) -> str:
    """Returns the interval in percent, each end rounded away from the middle."""
    low, high = interval(place)
    return f"{proven(100 * low, 1)} to {percent_limit(high)}"


def data() -> dict[str, Any]:
    """Returns the records, the scores of each under every model, and the limits."""
    game = stored()
    return {
        "rounds": ROUNDS,
        "seed": SEED,
        "records": POOL,
        "pictures": game["pictures"],
        "labels": game["labels"],
        "joined": game["joined"],
        "coin": [
            percent(float(probability_at_least(count, ROUNDS, 0.5)))
            for count in range(ROUNDS + 1)
        ],
        "models": [_model(place) for place in range(len(game["models"]))],
    }


def _model(place: int) -> dict[str, Any]:
    """Returns the data of one model for the game."""
    most = limits(place)
    return {
        "title": WITHOUT if most is None else f"ε = {spent(place)}",
        "epsilon": None if most is None else spent(place),
        "most": 1.0 if most is None else math.ceil(1e4 * most.run) / 1e4,
        "limits": "" if most is None else str(most),
        "right": right(place),
        "interval": interval_words(place),
        "accuracy": percent(stored()["models"][place]["test_accuracy"]),
        **_records(place),
    }


def picture() -> Picture:
    """Returns the chart of the attacker's accuracy on all records, with the limits."""
    config = AttackConfig.parse(stored()["config"])
    models = data()["models"]
    ordinary, *private = models
    places = range(1, len(models))
    reached = _listed([model["right"] for model in private])
    runs = [most.percents[THIS_RUN] for p in places if (most := limits(p))]
    epsilons = _listed([model["epsilon"] for model in private])
    return Picture(
        title=(
            f"The attacker is right about {ordinary['right']} % of the records without "
            f"privacy; at ε = {epsilons} about {reached} %, where any attack on "
            f"{THIS_RUN} is right at most {_listed(runs)} %"
        ),
        sub=(
            f"Right guesses about {POOL} records of {config.data_set.label}, each "
            "put in by a fair coin, with 95 % intervals; a network with one hidden "
            f"layer, attacked by likelihood ratio with {config.shadows} shadow models"
        ),
        wide=_draw(models, (904, 270), left=150),
        narrow=_draw(models, (342, 270), left=112),
        head=(
            "model",
            "the attacker is right, %",
            "95 % interval",
            f"right at most, %, {THIS_RUN}",
            f"right at most, %, {EPSILON_ALONE}",
            "unseen records that the model classifies correctly, %",
        ),
        rows=tuple(
            (
                model["title"],
                model["right"],
                model["interval"],
                *(most.percents.values() if (most := limits(place)) else ("–", "–")),
                model["accuracy"],
            )
            for place, model in enumerate(models)
        ),
        kind="recorded",
        status="exact",
        note=(
            f"One recorded attack on each model: {STEPS} steps, δ = "
            f"{small(config.plan.delta)}, one record added or removed. A coin is "
            "right 50 % of the time; the Clopper-Pearson intervals treat records as "
            "independent, which is only approximately true within one model. Coins, "
            "scores and the model without privacy are not private; the pictures are "
            "public."
        ),
        is_private=False,
    )


def _records(place: int) -> dict[str, list[Any]]:
    """Returns what each record's label gets, in words and as logits, and the guess."""
    model = stored()["models"][place]
    return {
        "sure": [_sure(logit) for logit in model["logits"]],
        "had_it": [_sure(logit) for logit in model["had_it"]],
        "had_it_not": [_sure(logit) for logit in model["had_it_not"]],
        "says_in": [score > 0 for score in model["scores"]],
        "logits": [float(f"{logit:.3g}") for logit in model["logits"]],
        "with_it": model["with_it"],
        "without_it": model["without_it"],
    }


def _sure(logit: float) -> str:
    """Returns the probability of a logit in percent, neither 0 nor 100."""
    rest = 1 / (1 + math.exp(logit))
    if 1 - rest < RARE:
        return significant(100 * (1 - rest))
    return percent(1 - rest, max(1, math.ceil(-math.log10(rest)) - 1))


def _draw(
    models: Sequence[Mapping[str, Any]], size: tuple[int, int], *, left: int
) -> Markup:
    rows = float(len(models))
    plot = Plot.framed(size, (0.0, 100.0), (0.0, rows), left=left, top=16)
    plot.x_axis([(0, "0"), (50, "50, a coin"), (100, "100")], "right guesses, %")
    plot.line([(50, 0), (50, rows)], "thin s-faint dotted")
    for place, model in enumerate(models):
        middle = rows - 0.5 - place
        plot.text((0, middle), model["title"], "", "end", (-12, 5))
        share = 100 * stored()["models"][place]["right"]
        colour = "attack" if model["epsilon"] is None else "private"
        plot.bar((0, share), (middle - 0.28, middle + 0.28), f"f-{colour}")
        ends = [(100 * end, middle) for end in interval(place)]
        plot.line(ends, "thin s-ink")
        plot.text((100, middle), f"{model['right']} %", "", "end", (0, 5))
        if most := limits(place):
            edge = 100 * most.run
            plot.line([(edge, middle - 0.42), (edge, middle + 0.42)], "s-budget")
            words = THIS_RUN if size[0] > 500 else "limit"
            plot.text((edge, middle), words, "budget halo", "start", (6, 5))
    bars = "; ".join(
        f"{model['title']}: {model['right']} percent, at most "
        f"{model['limits'] or 'anything'}"
        for model in models
    )
    return plot.svg(f"Bars of right guesses. {bars}.")


def _listed(words: Sequence[str]) -> str:
    """Returns "a, b and c"."""
    *before, last = words
    return f"{', '.join(before)} and {last}"


WIDGET = Widget(
    slug="membership-game",
    title="Was this record in?",
    picture=picture,
    data=data,
    controls={
        "model": "The model: 1 without privacy, 2 to 4 with ε = 1, 2, 4",
        "again": "New game",
    },
    starts={"model": (Choices((1, 2, 3, 4), by_place=False),)},
)
