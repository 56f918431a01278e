"""Record the attack whose records the membership game asks about.

    python -m tools.record.membership_game

Writes dpsgd_explorer/web/recorded/attacks/membership_game.json: the attack's settings,
some of its records drawn at random, with their pictures in sixteen shades, who was in,
and of both models the logit of each label, those of the shadows and the score of the
likelihood ratio; and how often that attack is right about all records.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
from torch import Tensor

from dpsgd_explorer.audit.attacks.membership import likelihood_ratio_scores
from dpsgd_explorer.experiments.attack_config import POOL, AttackConfig
from dpsgd_explorer.training.attack import TARGETS, Attack
from dpsgd_explorer.training.datasets import registry
from tools.record.files import versions, write

DRAWN = 24  # records that the game asks about: their pictures are sent with the page
SEED = 3
EPSILON = 2.0  # at which no attack may be right as often as this one without privacy
DIGITS = 5  # significant ones of a logit


def main() -> int:
    """Attack once with every label as it is, and write what the game needs."""
    dataset = AttackConfig().dataset
    train, _ = registry.load(dataset)
    labels = train.targets[:POOL].tolist()
    config = AttackConfig(target_epsilon=EPSILON, canary_label=labels[0])
    attack = Attack(config)
    *_, end = attack.events()
    places = sorted(random.Random(SEED).sample(range(POOL), DRAWN))
    stored: dict[str, Any] = {
        "config": config.model_dump(mode="json"),
        "epsilon": end.data["epsilon"],
        "places": places,
        "labels": [labels[place] for place in places],
        "pictures": [_shades(train.inputs[place]) for place in places],
        "joined": [bool(attack.joined[place]) for place in places],
        "models": {
            name: _model(attack, places, private=private)
            for private, name in TARGETS.items()
        },
    }
    write("attacks/membership_game", stored | versions())
    for name, model in stored["models"].items():
        print(name, model["right"])
    return 0


def _shades(picture: Tensor) -> str:
    """Return one hexadecimal digit a pixel, row by row, from 0, black."""
    shades = (picture.flatten() * 15).round().int().tolist()
    return "".join(f"{shade:x}" for shade in shades)


def _model(attack: Attack, places: list[int], *, private: bool) -> dict[str, Any]:
    """Return what is known of each record under one model, and the attack's share."""
    signals = attack.signals(private=private)
    scores = likelihood_ratio_scores(signals)
    inside = np.where(signals.joined, signals.shadows, np.nan)
    outside = np.where(signals.joined, np.nan, signals.shadows)
    seen = {
        "logits": signals.target,
        "had_it": np.nanmedian(inside, axis=0),
        "had_it_not": np.nanmedian(outside, axis=0),
        "scores": scores,
    }
    return {
        "right": float(((scores > 0) == attack.joined).mean()),
        **{
            name: [float(f"{float(values[place]):.{DIGITS}g}") for place in places]
            for name, values in seen.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
