"""A game about membership: ten records, the visitor and an attacker, and the limit.

Records, models and the attacker's scores are those of a recorded attack
(``tools/record/membership_game.py``).  The limit is that of a guess on a fair coin: of
all rates a of false alarms with h(a) hits, the largest (1 + h(a) - a) / 2, which is
(1 + δ(0)) / 2 (Dong, Roth and Su 2019, arXiv:1905.02383v3, Proposition 2.5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.accounting import delta
from dpsgd_explorer.accounting.core.binomial import at_least
from dpsgd_explorer.experiments.attack_config import POOL, STEPS, AttackConfig
from dpsgd_explorer.web.figures.svg import Picture, Plot, small
from dpsgd_explorer.web.questions.rounding import (
    limit,
    percent,
    percent_limit,
    significant,
)
from dpsgd_explorer.web.recorded.files import recording

ROUNDS = 10
SEED = 1
RARE = 0.01  # a share below which one decimal of its percents says too little
WITHOUT = "without privacy"


def stored() -> dict[str, Any]:
    """Return the recorded attacks."""
    return recording("attacks/membership_game")


@cache
def most_right(place: int) -> float:
    """Return the largest share of right guesses of any attack on a model."""
    model = stored()["models"][place]
    if model["epsilon"] is None:
        return 1.0
    plan = AttackConfig.parse(stored()["config"]).plan
    return (1 + delta(plan.sample_rate, model["noise_multiplier"], plan.steps, 0)) / 2


def spent(place: int) -> str:
    """Return ε of a private model, rounded up, without decimals that are 0."""
    return limit(stored()["models"][place]["epsilon"]).removesuffix(".00")


def right(place: int) -> str:
    """Return how often the attacker is right about all records of a model, %."""
    return percent(stored()["models"][place]["right"])


def data() -> dict[str, Any]:
    """Return the records, what is known of each under every model, and the limits."""
    found = stored()
    return {
        "rounds": ROUNDS,
        "seed": SEED,
        "pictures": found["pictures"],
        "labels": found["labels"],
        "joined": found["joined"],
        "coin": [
            percent(float(at_least(count, ROUNDS, 0.5))) for count in range(ROUNDS + 1)
        ],
        "models": [_model(place) for place in range(len(found["models"]))],
    }


def _model(place: int) -> dict[str, Any]:
    """Return what the game needs of one model."""
    is_private = stored()["models"][place]["epsilon"] is not None
    return {
        "title": f"ε = {spent(place)}" if is_private else WITHOUT,
        "epsilon": spent(place) if is_private else None,
        "limit": {
            "share": math.ceil(1e4 * most_right(place)) / 1e4,
            "words": percent_limit(most_right(place)),
        },
        "right": right(place),
        **_records(place),
    }


def picture() -> Picture:
    """Return how often the attacker is right about all records, beside the limits."""
    config = AttackConfig.parse(stored()["config"])
    models = data()["models"]
    ordinary, *private = models
    reached = _listed([model["right"] for model in private])
    most = _listed([model["limit"]["words"] for model in private])
    epsilons = _listed([model["epsilon"] for model in private])
    return Picture(
        title=(
            f"The attacker is right about {ordinary['right']} % of the records without "
            f"privacy; at ε = {epsilons} no attack passes {most} %, and this one "
            f"reaches {reached} %"
        ),
        sub=(
            f"Right guesses about {POOL} records of {config.data_set.label}, of which "
            "a fair coin put each in; a network with one hidden layer, attacked by "
            f"likelihood ratio with {config.shadows} shadow models"
        ),
        wide=_draw(models, (904, 270), left=150),
        narrow=_draw(models, (342, 270), left=112),
        head=("model", "the attacker is right, %", "most that is possible, %"),
        rows=tuple(
            (model["title"], model["right"], model["limit"]["words"])
            for model in models
        ),
        kind="recorded",
        status="exact",
        note=(
            f"One attack on each, recorded: {STEPS} steps, "
            f"δ = {small(config.plan.delta)}, one record added or removed. "
            "Coins, scores and the model without privacy are not private; the pictures "
            "are public."
        ),
        is_private=False,
    )


def _records(place: int) -> dict[str, list[Any]]:
    """Return of each record how sure models are of its label, and what is guessed."""
    found = stored()["models"][place]
    return {
        "sure": [_sure(logit) for logit in found["logits"]],
        "had_it": [_sure(logit) for logit in found["had_it"]],
        "had_it_not": [_sure(logit) for logit in found["had_it_not"]],
        "says_in": [score > 0 for score in found["scores"]],
    }


def _sure(logit: float) -> str:
    """Return the probability of a logit in percent, neither 0 nor 100."""
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
    for place, model in enumerate(models):
        middle = rows - 0.5 - place
        plot.text((0, middle), model["title"], "", "end", (-12, 5))
        share = 100 * stored()["models"][place]["right"]
        colour = "attack" if model["epsilon"] is None else "private"
        plot.bar((0, share), (middle - 0.28, middle + 0.28), f"f-{colour}")
        plot.text((100, middle), f"{model['right']} %", "", "end", (0, 5))
        if model["epsilon"] is not None:
            edge = 100 * most_right(place)
            plot.line([(edge, middle - 0.42), (edge, middle + 0.42)], "s-budget")
            plot.text((edge, middle), "limit", "budget halo", "start", (6, 5))
    bars = "; ".join(
        f"{model['title']}: {model['right']} percent, limit {model['limit']['words']}"
        for model in models
    )
    return plot.svg(f"Bars of right guesses. {bars}.")


def _listed(words: Sequence[str]) -> str:
    """Return "a, b and c"."""
    *before, last = words
    return f"{', '.join(before)} and {last}"
