"""Figures of the core modifications: one private step, and three twins."""

from __future__ import annotations

from dpsgd_explorer.web.hub.examples.classic_run import (
    BATCH_SIZE,
    EPOCHS,
    SAMPLE_SIZE,
    classic_plan,
    epsilon_of_run,
)
from dpsgd_explorer.web.hub.examples.default_run import default_run, scaled_bound
from dpsgd_explorer.web.hub.examples.toy_problem import SIZE as TOY_SIZE
from dpsgd_explorer.web.hub.widgets.microscope.dpsgd_step import (
    EXPECTED_BATCH_SIZE,
    microscope_picture,
    step,
)
from dpsgd_explorer.web.hub.widgets.microscope.widget import (
    clipped_degrees,
    clipped_share,
)
from dpsgd_explorer.web.hub.widgets.three_way_twin import widget as three_way_twin
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.rounding import limit

__all__ = [
    "EXPECTED_BATCH_SIZE",
    "TOY_SIZE",
    "classic_plan",
    "clipped_degrees",
    "clipped_share",
    "default_run",
    "drawn_records",
    "epsilon_by_noise",
    "larger_part",
    "points_lost",
    "private_twin",
    "scaled_bound",
    "twin_learning_rate",
]

thumbnail = microscope_picture
points_lost = three_way_twin.lost
larger_part = three_way_twin.larger_part
private_twin = three_way_twin.private_config
twin_learning_rate = three_way_twin.own_rate

epsilon_by_noise = Comparison(
    epsilon_of_run,
    "noise_multiplier",
    (1.1, 2.2),
    {
        "expected_batch_size": BATCH_SIZE,
        "epochs": EPOCHS,
        "sample_size": SAMPLE_SIZE,
    },
    limit,
)


def drawn_records() -> int:
    """Returns the number of records that the step of the microscope draws."""
    return len(step().gradients)
