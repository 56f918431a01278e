"""Data of the short course's scenes, from the widgets that show the same subjects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS, Chapter
from dpsgd_explorer.web.hub.widgets.membership_game import widget as game
from dpsgd_explorer.web.hub.widgets.microscope import dpsgd_step
from dpsgd_explorer.web.hub.widgets.microscope import widget as microscope
from dpsgd_explorer.web.hub.widgets.noise import widget as noise
from dpsgd_explorer.web.hub.widgets.one_odd_record import widget as odd

SPREAD = 24  # dots of earlier trainings in the attack, for each world
WEAK, STRONG = "0.5", "4"  # noise multipliers of the attack
#: Guesses at each of them: as many with the record as without it.
GUESSES = {WEAK: 4, STRONG: 6}


@dataclass(frozen=True)
class Idea:
    """One idea of the course in words.

    Attributes:
        slug: Name of the chapter that explains it.
        title: Heading.
        text: 60 to 90 words.
    """

    slug: str
    title: str
    text: str

    @property
    def chapter(self) -> Chapter:
        """The chapter that explains the idea."""
        return CHAPTERS[self.slug]


IDEAS = (
    Idea(
        "intro",
        "A promise about one person",
        "Train a model twice: once with your record in the data, once without it. "
        "Differential privacy promises that whoever sees the trained model can hardly "
        "tell which of the two it was. The promise covers every question anybody may "
        "ask of the model, now and later, with any other knowledge. It does not hide "
        "what the model learns from everybody: that smoking is unhealthy stays true "
        "for you, whether you took part or not.",
    ),
    Idea(
        "dp-concepts",
        "ε measures how far the two worlds differ",
        "Whatever an attacker sees is at most e to the power ε times as likely with "
        "your record as without it, except for a small rest, δ. At ε = 0 and δ = 0 "
        "both worlds are the same, and nothing can be learned. At ε = 1 the odds of "
        "any suspicion change by a factor of at most 2.7; at ε = 8 the factor is "
        "2,981, which promises little. Every use of the data spends some ε, and the "
        "parts add up.",
    ),
    Idea(
        "sgd-basics",
        "Training listens to single records",
        "Stochastic gradient descent draws a batch of records. For each record it "
        "computes a gradient: the direction in which the model should move to fit this "
        "record better. The mean of these directions moves the model. A typical record "
        "pulls gently; one that fits badly pulls hard, and may decide the step almost "
        "alone. That is how a model comes to remember a single unusual record, and why "
        "the gradient is the place where privacy has to begin.",
    ),
    Idea(
        "dpsgd-intro",
        "Clip each gradient, then add noise to the sum",
        "DP-SGD changes two lines of training. First, each record’s own gradient is "
        "scaled down to a length of at most C, so that no record can add more than C "
        "to the sum. Second, Gaussian noise with standard deviation σ times C is added "
        "to this sum. The step then goes on as always. Clipping must come before the "
        "noise: without a bound on what one record adds, no amount of noise would be "
        "known to hide it.",
    ),
    Idea(
        "parameters",
        "Which settings buy privacy, which buy accuracy",
        "For a given δ, three settings decide ε: the noise multiplier σ, the share of"
        " the records in a batch, and the number of steps. Two others do not: the "
        "clipping bound C and the learning rate change the accuracy alone, since the "
        "noise grows with C. Large batches help most: the noise is added once to a "
        "sum of more records. Tune the learning rate together with C. And remember "
        "that choosing the best of several runs spends privacy, too.",
    ),
    Idea(
        "privacy-accounting",
        "Somebody has to count every step",
        "One step with much noise reveals almost nothing; a training has thousands. "
        "An accountant adds up what all steps may reveal together. It uses that each "
        "batch is drawn at random, so nobody knows which steps saw your record. Simple "
        "sums are far too pessimistic. This site counts with the exact distribution of "
        "the privacy loss and rounds ε up, so that the printed number is a promise, "
        "and no larger than it has to be.",
    ),
)


def pictures() -> dict[str, Picture]:
    """Returns the picture of each scene, for pages without script."""
    return {
        "noise": noise.picture(),
        "odd": odd.picture(),
        "step": microscope.picture(),
        "attack": game.WIDGET.picture(),
    }


def attack_goals() -> list[tuple[str, str]]:
    """Returns the goals of the attack: names and words."""
    return [
        (f"game-{i}", f"Guess for {guesses} models with σ = {sigma}")
        for i, (sigma, guesses) in enumerate(GUESSES.items())
    ]


@cache
def data() -> dict[str, Any]:
    """Returns the data of all scenes."""
    slider = noise.data()
    step = microscope.data()
    shared = ("at", "drawn", "bound", "noise_multiplier", "noise", "expected")
    return {
        "coin": noise.COIN,
        "query": slider["query"],
        "places": slider["places"],
        "without": slider["without"],
        "levels": slider["levels"],
        "odd": odd.data() | {"bound": dpsgd_step.MAX_GRAD_NORM},
        "step": {name: step[name] for name in shared},
        "attack": {
            "spread": SPREAD,
            "games": [
                {
                    "level": [x["noise"] for x in slider["levels"]].index(sigma),
                    "guesses": guesses,
                }
                for sigma, guesses in GUESSES.items()
            ],
        },
    }
