"""A lottery of batches: Poisson, fixed size and shuffled, with what each may promise.

All three expect the same number of records per batch.  Poisson batches have an exact ε
under either relation; batches of fixed size, drawn for each step, have an upper bound
for one record replaced (for one added or removed see Birrell and others 2024,
arXiv:2408.10456, which is not computed here).

A shuffled deck uses each record once per epoch.  Given the order of the deck, which
does not depend on the records, one record replaced moves one sum of an epoch by at most
2 C, so an epoch is at most one Gaussian release with noise σ C on a sensitivity of 2 C.
That is a bound without amplification; the exact ε may be far above Poisson's (Chua and
others 2024, arXiv:2403.17673), and is not above this bound.

Misconception: “Shuffled batches are as good as Poisson samples: the average batch is
    the same”, and “fixed batches hide records better”
Content: three ways to draw batches of the same expected size: which steps use one’s own
    record, how sizes vary, and what each may promise
Source: Poisson: exact accountant; fixed size: Rényi bound for one record replaced,
    after Balle, Barthe and Gaboardi 2018, arXiv:1807.01647; shuffled: one Gaussian
    release per epoch for one record replaced; the gap to Poisson: Chua and others 2024,
    arXiv:2403.17673
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.accounting import (
    epsilon_curve,
    fixed_size_epsilon,
    gaussian_epsilon,
    random_allocation_epsilon,
)
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)
from dpsgd_explorer.web.figures.svg import Picture, Plot, small
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.rounding import limit

RECORDS = 24
BATCH_SIZE = 6
STEPS_PER_EPOCH = RECORDS // BATCH_SIZE
EPOCHS = 6
SHOWN_EPOCHS = 3  # of the picture without script
NOISE_MULTIPLIER = 3.0
DELTA = 1e-5
SEED = 2
TALLEST = 14  # records; a row of the picture is as high

Batches = list[list[int]]  # the records of each step


def poisson(steps: int, chance: random.Random) -> Batches:
    """Returns batches with independent inclusion of each record."""
    rate = BATCH_SIZE / RECORDS
    return [
        [record for record in range(RECORDS) if chance.random() < rate]
        for _ in range(steps)
    ]


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


SCHEMES = (("Poisson", poisson), ("fixed size", fixed_size), ("shuffled", shuffled))


@cache
def promises() -> tuple[dict[str, str], ...]:
    """Returns the ε after each epoch under each scheme, as text.

    ``poisson`` is exact for one record added or removed, ``replaced`` for one replaced;
    ``fixed`` is a bound for batches of fixed size, one record replaced, and
    ``shuffled`` one for a shuffled deck.  ``allocation`` is exact for one record added
    or removed, if each record draws one step of each epoch by itself.
    """
    rate = BATCH_SIZE / RECORDS
    steps = [STEPS_PER_EPOCH * epoch for epoch in range(1, EPOCHS + 1)]
    added, replaced = (
        epsilon_curve(
            sample_rate=rate,
            noise_multiplier=NOISE_MULTIPLIER,
            delta=DELTA,
            steps=steps,
            neighboring_relation=relation,
        )
        for relation in (ADD_OR_REMOVE_ONE, REPLACE_ONE)
    )
    return tuple(
        {
            "poisson": limit(added[i]),
            "replaced": limit(replaced[i]),
            "fixed": limit(
                fixed_size_epsilon(
                    sample_rate=rate,
                    noise_multiplier=NOISE_MULTIPLIER,
                    steps=count,
                    delta=DELTA,
                )
            ),
            "shuffled": limit(
                gaussian_epsilon(
                    delta=DELTA, noise_multiplier=NOISE_MULTIPLIER / 2, steps=i + 1
                )
            ),
            "allocation": limit(
                random_allocation_epsilon(
                    noise_multiplier=NOISE_MULTIPLIER,
                    slots=STEPS_PER_EPOCH,
                    epochs=i + 1,
                    delta=DELTA,
                )
            ),
        }
        for i, count in enumerate(steps)
    )


def data() -> dict[str, Any]:
    """Returns the sizes of the game and the ε after each epoch."""
    return {
        "records": RECORDS,
        "batch_size": BATCH_SIZE,
        "epochs": EPOCHS,
        "tallest": TALLEST,
        "seed": SEED,
        "promises": promises(),
    }


@cache
def picture() -> Picture:
    """Returns some epochs of the three schemes, and what each may promise."""
    after = promises()[SHOWN_EPOCHS - 1]
    return Picture(
        title=(
            f"All three expect {BATCH_SIZE} records per batch; here only Poisson "
            "sampling has an exact ε, and the others have bounds"
        ),
        sub=(
            f"{RECORDS} records, {STEPS_PER_EPOCH} steps per epoch, σ = "
            f"{NOISE_MULTIPLIER:g}, δ = {small(DELTA)}; a dot marks steps that use "
            "your record"
        ),
        wide=_draw((904, 330)),
        narrow=_draw((342, 330)),
        head=(
            f"after {SHOWN_EPOCHS} epochs",
            "ε, one record added or removed",
            "ε, one record replaced",
        ),
        rows=(
            ("Poisson", f"{after['poisson']} (exact)", f"{after['replaced']} (exact)"),
            (
                "fixed size, drawn for each step",
                "not computed here",
                f"{after['fixed']} (bound)",
            ),
            ("shuffled", "not computed here", f"{after['shuffled']} (bound)"),
        ),
        status="bound",
        note="Seeded draws. Exact accountant; for fixed size its upper bound; for a "
        "shuffled deck one Gaussian release per epoch, without amplification.",
    )


def _draw(size: tuple[int, int]) -> Markup:
    steps = SHOWN_EPOCHS * STEPS_PER_EPOCH
    plot = Plot.framed(size, (0, steps), (0, len(SCHEMES)), left=8)
    for row, (name, draw) in enumerate(reversed(SCHEMES)):
        batches = draw(steps, random.Random(SEED))
        for step, batch in enumerate(batches):
            top = row + len(batch) / TALLEST
            plot.bar((step + 0.15, step + 0.85), (row, top), "f-area")
            if 0 in batch:
                plot.dot((step + 0.5, top), "f-ink", 4)
        plot.path([(0, row), (steps, row)], "axis")
        plot.text((0, row + 0.82), name, "ink halo")
    plot.x_axis(
        [(STEPS_PER_EPOCH * i, f"{i}") for i in range(SHOWN_EPOCHS + 1)], "epochs"
    )
    return plot.svg(
        "Three rows of bars, a bar for the size of each batch: Poisson batches differ, "
        "the others are all alike; a shuffled deck uses a record once in each epoch."
    )


WIDGET = Widget(
    slug="sampling-lottery",
    title="A lottery of batches",
    picture=picture,
    data=data,
    controls={"epochs": "Epochs and draws"},
)
