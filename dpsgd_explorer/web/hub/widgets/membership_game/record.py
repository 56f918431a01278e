"""Recording of the attack for the membership game.

    python -m dpsgd_explorer.web.hub.widgets.membership_game.record

Writes ``recorded.json`` into this folder: the attack's settings,
some of its records drawn at random, with their pictures in sixteen shades and their
membership; for both models the logit of each label, the logits of the shadows trained
with the record and without it, and the
score of the likelihood ratio; how often that attack is right about all records, and the
test accuracy of the attacked model.  There is one private model for each epsilon that
the game offers.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dpsgd_explorer.audit.attacks.membership import likelihood_ratio_scores
from dpsgd_explorer.experiments.attack_config import POOL, AttackConfig
from dpsgd_explorer.training.attack import Attack, shades
from dpsgd_explorer.training.datasets import registry
from tools.record.files import versions, write

DRAWN = 24  # records that the game asks about: their pictures are sent with the page
SEED = 3
EPSILONS = (1.0, 2.0, 4.0)
DIGITS = 5  # significant ones of a logit
SHADOW_DIGITS = 3  # significant ones of a shadow's logit, which is only drawn


def main() -> int:
    """Runs the attack with true labels, and write the data of the game."""
    dataset = AttackConfig().dataset
    train, _ = registry.load(dataset)
    labels = train.targets[:POOL].tolist()
    places = sorted(random.Random(SEED).sample(range(POOL), DRAWN))
    models: list[dict[str, Any]] = []
    for target in EPSILONS:
        config = AttackConfig(target_epsilon=target, canary_label=labels[0])
        attack = Attack(config)
        events = list(attack.events())
        accuracy = {
            event.data["diagnostics"]["private"]: event.data["diagnostics"][
                "test_accuracy"
            ]
            for event in events
            if event.kind == "step" and event.data["diagnostics"]["shadow"] == 0
        }
        if not models:  # the ordinary model is the same for each ε
            models.append(_model(attack, places, None, accuracy[False]))
        spent = events[-1].data["epsilon"]
        models.append(_model(attack, places, spent, accuracy[True]))
    stored: dict[str, Any] = {
        "config": config.model_dump(mode="json"),
        "places": places,
        "labels": [labels[place] for place in places],
        "pictures": ["".join(shades(train.inputs[place])) for place in places],
        "joined": [bool(attack.joined[place]) for place in places],
        "models": models,
    }
    write("recorded", stored | versions(), folder=Path(__file__).parent)
    for model in models:
        print(model["epsilon"], model["right"])
    return 0


def _model(
    attack: Attack, places: list[int], epsilon: float | None, accuracy: float
) -> dict[str, Any]:
    """Returns the knowledge of each record under one model, and the attack's share.

    Args:
        attack: All its models are trained.
        places: The records.
        epsilon: ε of the private model; None for the model without privacy.
        accuracy: Share of test records that the attacked model classifies right.
    """
    signals = attack.signals(private=epsilon is not None)
    scores = likelihood_ratio_scores(signals)
    inside = np.where(signals.joined, signals.shadows, np.nan)
    outside = np.where(signals.joined, np.nan, signals.shadows)
    measurements = {
        "logits": signals.target,
        "had_it": np.nanmedian(inside, axis=0),
        "had_it_not": np.nanmedian(outside, axis=0),
        "scores": scores,
    }
    return {
        "epsilon": epsilon,
        "noise_multiplier": attack.config.plan.noise_multiplier,
        "right": float(((scores > 0) == attack.joined).mean()),
        "test_accuracy": accuracy,
        **{
            name: [float(f"{float(values[place]):.{DIGITS}g}") for place in places]
            for name, values in measurements.items()
        },
        **{
            name: [
                [float(f"{float(v):.{SHADOW_DIGITS}g}") for v in values[:, place][keep]]
                for place in places
                for keep in [~np.isnan(values[:, place])]
            ]
            for name, values in (("with_it", inside), ("without_it", outside))
        },
    }


if __name__ == "__main__":
    sys.exit(main())
