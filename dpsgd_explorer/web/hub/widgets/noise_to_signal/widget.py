"""The noise of a whole run against the batch size, at the same ε and epochs.

The exact accountant computes σ for every batch size.  Räisä, Jälkö and Honkela (2024),
arXiv:2402.03990, explain why batches above some size gain hardly anything.

Misconception: “The larger the batch, the better, since each update has less noise”
Content: at the same ε and epochs, noise per update and over the whole run against the
    batch size: the second is flat beyond some size
Source: σ from the exact accountant; Räisä, Jälkö and Honkela 2024, arXiv:2402.03990
"""

from __future__ import annotations

from functools import cache
from typing import Any

from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.examples.classic_run import SAMPLE_SIZE
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.noise_to_signal import batch_costs
from dpsgd_explorer.web.questions.rounding import need, significant, whole

PER_DOUBLING = 2
SIZES = (
    *(round(64 * 2 ** (i / PER_DOUBLING)) for i in range(20)),
    SAMPLE_SIZE,
)
SHOWN_SIZE = 256


@cache
def costs() -> tuple[batch_costs.BatchCost, ...]:
    """Returns the noise that each batch size needs."""
    return tuple(
        batch_costs.batch_cost(
            size, batch_costs.TARGET_EPSILON, batch_costs.EPOCHS, SAMPLE_SIZE
        )
        for size in SIZES
    )


def shares() -> list[tuple[float, float]]:
    """Returns the noise per update and over the run, relative to the smallest batch."""
    least = costs()[0]
    return [
        (
            cost.noise_per_update / least.noise_per_update,
            cost.noise_over_run / least.noise_over_run,
        )
        for cost in costs()
    ]


def picture() -> Picture:
    """Returns both noises against the batch size."""
    return batch_costs.batch_picture()


def _percent(share: float) -> str:
    """Returns a share with two digits, or whole percents."""
    percent = 100 * share
    return f"{significant(percent) if percent < 10 else f'{percent:.0f}'} %"


def data() -> dict[str, Any]:
    """Returns the cost of each batch size; noise is relative to the smallest batch."""
    return {
        "first": SIZES.index(SHOWN_SIZE),
        "doubling": PER_DOUBLING,
        "points": [
            {
                "batch": cost.batch_size,
                "steps": whole(cost.steps),
                "sigma": need(cost.noise_multiplier),
                "relative": [_percent(share) for share in pair],
                "shares": [round(share, 4) for share in pair],
            }
            for cost, pair in zip(costs(), shares(), strict=True)
        ],
    }


WIDGET = Widget(
    slug="noise-to-signal",
    title="Batch size over a run",
    picture=picture,
    data=data,
    controls={"batch": "Expected batch size"},
    starts={"batch": (Choices(SIZES),)},
)
