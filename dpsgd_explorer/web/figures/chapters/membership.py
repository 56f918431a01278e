"""A game about membership: ten records, the visitor and an attacker, and the limit.

Records, models and the attacker's scores are those of a recorded attack
(``tools/record/membership_game.py``).  The limit is that of a guess on a fair coin: of
all rates a of false alarms with h(a) hits, the largest (1 + h(a) - a) / 2, which is
(1 + δ(0)) / 2 (Dong, Roth and Su 2019, arXiv:1905.02383v3, Proposition 2.5).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from markupsafe import Markup
from scipy import stats

from dpsgd_explorer.accounting import delta
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
NAMES = {"ordinary": "without privacy", "private": "with privacy"}
SEED = 1
RARE = 0.01  # a share below which one decimal of its percents says too little


def stored() -> dict[str, Any]:
    """Return the recorded attack."""
    return recording("attacks/membership_game")


@cache
def most_right() -> float:
    """Return the largest share of right guesses of any attack on the private model."""
    plan = AttackConfig.parse(stored()["config"]).plan
    return (1 + delta(plan.sample_rate, plan.noise_multiplier, plan.steps, 0.0)) / 2


def spent() -> str:
    """Return ε of the private model, rounded up."""
    return limit(stored()["epsilon"])


def right(model: str) -> str:
    """Return how often the attacker is right about all records of a model, %."""
    return percent(stored()["models"][model]["right"])


def data() -> dict[str, Any]:
    """Return the records, what is known of each under both models, and the limits."""
    found = stored()
    return {
        "rounds": ROUNDS,
        "seed": SEED,
        "pictures": found["pictures"],
        "labels": found["labels"],
        "joined": found["joined"],
        "epsilon": spent(),
        "limit": {
            "share": math.ceil(1e4 * most_right()) / 1e4,
            "words": percent_limit(most_right()),
        },
        "coin": [
            percent(float(stats.binom.sf(count - 1, ROUNDS, 0.5)))
            for count in range(ROUNDS + 1)
        ],
        "models": [
            {"name": name, "title": title, "right": right(name), **_records(name)}
            for name, title in NAMES.items()
        ],
    }


def picture() -> Picture:
    """Return how often the attacker is right about all records, beside the limit."""
    config = AttackConfig.parse(stored()["config"])
    most = percent_limit(most_right())
    return Picture(
        title=(
            f"The attacker is right about {right('ordinary')} % of the records without "
            f"privacy; at ε = {spent()} no attack passes {most} %, and this one "
            f"reaches {right('private')} %"
        ),
        sub=(
            f"Right guesses about {POOL} records of {config.data_set.label}, of which "
            "a fair coin put each in; a network with one hidden layer, attacked by "
            f"likelihood ratio with {config.shadows} shadow models"
        ),
        wide=_draw((904, 170), left=150),
        narrow=_draw((342, 170), left=112),
        head=("model", "the attacker is right, %", "most that is possible, %"),
        rows=(
            (NAMES["ordinary"], right("ordinary"), "100.0"),
            (f"{NAMES['private']}, ε = {spent()}", right("private"), most),
        ),
        kind="recorded",
        status="exact",
        note=(
            f"One attack, recorded: {STEPS} steps, δ = {small(config.plan.delta)}, one "
            "record added or removed. Coins, scores and the model without privacy are "
            "not private; the pictures are public."
        ),
        is_private=False,
    )


def _records(model: str) -> dict[str, list[Any]]:
    """Return of each record how sure models are of its label, and what is guessed."""
    found = stored()["models"][model]
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


def _draw(size: tuple[int, int], *, left: int) -> Markup:
    plot = Plot.framed(size, (0.0, 100.0), (0.0, 2.0), left=left, top=16)
    plot.x_axis([(0, "0"), (50, "50, a coin"), (100, "100")], "right guesses, %")
    for place, (name, colour) in enumerate(
        (("ordinary", "attack"), ("private", "private"))
    ):
        middle = 1.5 - place
        plot.text((0, middle), NAMES[name], "", "end", (-12, 5))
        share = 100 * stored()["models"][name]["right"]
        plot.bar((0, share), (middle - 0.28, middle + 0.28), f"f-{colour}")
        plot.text((100, middle), f"{right(name)} %", "", "end", (0, 5))
    edge = 100 * most_right()
    plot.line([(edge, 0), (edge, 1.1)], "s-budget")
    plot.text((edge, 1.0), "limit", "budget halo", "start", (6, 5))
    return plot.svg(
        f"Two bars: {right('ordinary')} percent without privacy; with privacy "
        f"{right('private')} percent, beside a limit at {percent_limit(most_right())}."
    )
