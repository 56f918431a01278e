"""A lottery of batches: four sampling schemes, and what is proven about ε of each.

All four expect the same number of records per batch.  ε is exact for Poisson sampling
and for random allocation; for batches of fixed size and for shuffled batches there are
two bounds (``proofs``).

Misconception: “Shuffled batches are as good as Poisson samples: the average batch is
    the same”, and “each record once per epoch has no exact ε”
Content: four ways to draw batches of the same expected size: which steps use one’s own
    record, how sizes vary, whether ε is exact or lies between two bounds, and which
    scheme to prefer
Source: Poisson: exact accountant; random allocation: Feldman and Shenfeld 2025,
    arXiv:2502.08202, recorded by `record.py`; fixed size: Balle, Barthe and Gaboardi
    2018, arXiv:1807.01647; shuffled: at least, Chua and others 2024, arXiv:2411.04205,
    at most, one Gaussian release per epoch
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot, small
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.sampling_lottery.proofs import (
    BATCH_SIZE,
    DELTA,
    EPOCHS,
    NOISE_MULTIPLIER,
    RECORDS,
    STEPS_PER_EPOCH,
    replaced,
    zeroed,
)
from dpsgd_explorer.web.questions.rounding import limit, proven

SHOWN_EPOCHS = 3  # of the picture without script
SEED = 2
TALLEST = 13  # records; a row of the picture is as high
HEADINGS = {
    "poisson": "Poisson: a coin per record and step",
    "allocation": "Random allocation: one step per epoch",
    "fixed": f"Fixed size: {BATCH_SIZE} drawn for each step",
    "shuffled": "Shuffled: dealt out in turn",
}
NAMES = {
    "poisson": "Poisson",
    "allocation": "random allocation",
    "fixed": "fixed size",
    "shuffled": "shuffled",
}
WORDS = {
    "poisson": "ε = {most}, exact.",
    "allocation": "ε = {most}, exact. Each record draws one of the {steps} steps of an "
    "epoch, independently of all others. Recommended, if you want to use each record "
    "once per epoch.",
    "fixed": "ε is at least ε of Poisson sampling, and at most {most}, the bound for "
    "one replaced record. The true ε is between both.",
    "shuffled": "ε is at least {least} (Chua and others). Some data reach this: all "
    "other records pull the opposite way, and your batch has the largest sum. ε is at "
    "most {most}, as if everybody knew the order. The true ε is between both, and "
    "above ε = {poisson} of Poisson sampling. Use random allocation instead.",
}

Batches = list[list[int]]  # the records of each step


def poisson(steps: int, chance: random.Random) -> Batches:
    """Returns batches with independent inclusion of each record."""
    rate = BATCH_SIZE / RECORDS
    return [
        [record for record in range(RECORDS) if chance.random() < rate]
        for _ in range(steps)
    ]


def allocation(steps: int, chance: random.Random) -> Batches:
    """Returns batches of records that draw one step of each epoch, independently."""
    batches: Batches = []
    for _ in range(steps // STEPS_PER_EPOCH):
        slots = [chance.randrange(STEPS_PER_EPOCH) for _ in range(RECORDS)]
        batches += [
            [record for record in range(RECORDS) if slots[record] == step]
            for step in range(STEPS_PER_EPOCH)
        ]
    return batches


def fixed_size(steps: int, chance: random.Random) -> Batches:
    """Returns batches of fixed size, each drawn independently from all records."""
    return [chance.sample(range(RECORDS), BATCH_SIZE) for _ in range(steps)]


def shuffled(steps: int, chance: random.Random) -> Batches:
    """Returns batches dealt from a deck that is shuffled before each epoch."""
    batches: Batches = []
    for _ in range(steps // STEPS_PER_EPOCH):
        deck = chance.sample(range(RECORDS), RECORDS)
        batches += [
            deck[start : start + BATCH_SIZE] for start in range(0, RECORDS, BATCH_SIZE)
        ]
    return batches


SCHEMES = {
    "poisson": poisson,
    "allocation": allocation,
    "fixed": fixed_size,
    "shuffled": shuffled,
}


def title(epoch: int) -> str:
    """Returns the scheme with the smallest proven ε after an epoch, and this ε."""
    proofs = zeroed(epoch)
    best = min(proofs, key=lambda name: proofs[name].most)
    return (
        f"Smallest proven ε after {epoch * STEPS_PER_EPOCH} steps: {NAMES[best]}, "
        f"{limit(proofs[best].most)}"
    )


def words(epoch: int, name: str) -> str:
    """Returns what is proven about ε of a scheme after an epoch."""
    proof = zeroed(epoch)[name]
    return WORDS[name].format(
        least=proven(proof.least),
        most=limit(proof.most),
        poisson=limit(zeroed(epoch)["poisson"].most),
        steps=STEPS_PER_EPOCH,
    )


@cache
def data() -> dict[str, Any]:
    """Returns the sizes of the game, and what is proven after each epoch, as text."""
    epochs = range(1, EPOCHS + 1)
    return {
        "records": RECORDS,
        "batch_size": BATCH_SIZE,
        "epochs": EPOCHS,
        "tallest": TALLEST,
        "seed": SEED,
        "headings": HEADINGS,
        "largest": max(proof.most for i in epochs for proof in zeroed(i).values()),
        "after": [
            {
                "title": title(epoch),
                "schemes": {
                    name: {
                        "least": proven(proof.least),
                        "most": limit(proof.most),
                        "status": "exact" if proof.is_exact else "bound",
                        "short": proof.short,
                        "words": words(epoch, name),
                    }
                    for name, proof in zeroed(epoch).items()
                },
            }
            for epoch in epochs
        ],
    }


@cache
def picture() -> Picture:
    """Returns some epochs of the four schemes, and what is proven about each."""
    of_replaced = replaced(SHOWN_EPOCHS)
    return Picture(
        title=title(SHOWN_EPOCHS),
        sub=(
            f"{RECORDS} records, {BATCH_SIZE} expected per batch, {STEPS_PER_EPOCH} "
            f"steps per epoch, σ = {NOISE_MULTIPLIER:g}, δ = {small(DELTA)}; marks: "
            "steps with your record; ε compares your gradient with 0 in its place"
        ),
        wide=_draw((904, 400)),
        narrow=_draw((342, 400)),
        head=(
            f"after {SHOWN_EPOCHS} epochs",
            "ε, one gradient set to 0",
            "ε, one record replaced",
        ),
        rows=tuple(
            (
                NAMES[name],
                proof.cell,
                of_replaced[name].cell if name in of_replaced else "no proof is known",
            )
            for name, proof in zeroed(SHOWN_EPOCHS).items()
        ),
        status="bound",
        note="Seeded draws. Exact: the largest ε of all data sets, up to rounding. Two "
        "bounds: no data set has more than the upper one, and some data sets have the "
        "lower one or more. For Poisson sampling and random allocation, a gradient set "
        "to 0 is a record added or removed.",
    )


def _draw(size: tuple[int, int]) -> Markup:
    steps = SHOWN_EPOCHS * STEPS_PER_EPOCH
    plot = Plot.framed(size, (0, steps), (0, len(SCHEMES)), left=8)
    for row, (name, draw) in enumerate(reversed(SCHEMES.items())):
        batches = draw(steps, random.Random(SEED))
        for step, batch in enumerate(batches):
            top = row + min(len(batch) / TALLEST, 1)
            plot.bar((step + 0.15, step + 0.85), (row, top), "f-area")
            if 0 in batch:
                plot.dot((step + 0.5, top), "f-ink", 4)
        plot.path([(0, row), (steps, row)], "axis")
        proof = zeroed(SHOWN_EPOCHS)[name]
        plot.text((0, row + 0.82), f"{NAMES[name]}: {proof.short}", "ink halo")
    plot.x_axis(
        [(STEPS_PER_EPOCH * i, f"{i}") for i in range(SHOWN_EPOCHS + 1)], "epochs"
    )
    return plot.svg(
        "Four rows of bars, a bar for the size of each batch: batches of Poisson "
        "sampling and of random allocation differ in size, the others do not; random "
        "allocation and shuffling use a record once in each epoch."
    )


WIDGET = Widget(
    slug="sampling-lottery",
    title="A lottery of batches",
    picture=picture,
    data=data,
    controls={"epochs": "Epochs and draws"},
)
