"""Schedules of a training run: learning rate, noise and clipping bound.

Each has a shape and a factor at the last step; the factor at the first step is 1.  A
schedule is fixed before the run, so it depends on no record.
"""

from __future__ import annotations

from dpsgd_explorer.accounting.schedules import (
    Cosine,
    Exponential,
    Linear,
    Schedule,
    Staged,
)
from dpsgd_explorer.experiments.fields.setting import Setting

CONSTANT, ADAPTIVE = "constant", "adaptive"
SHAPES = {
    CONSTANT: "Constant",
    "linear": "Linear",
    "cosine": "Cosine",
    "exponential": "Exponential",
}
BOUND_SHAPES = SHAPES | {ADAPTIVE: "Adaptive: follows a quantile of the norms"}
#: Number of noise stages of a run; few, so that the search for a noise multiplier is
#: fast even at small sampling rates.
NOISE_STAGES = 5

#: The settings of schedules, for the vocabulary.
SCHEDULES: dict[str, Setting] = {
    "learning_rate_schedule": Setting(
        label="Learning rate schedule",
        help="Change of the learning rate from the first step to the last.",
        choices=SHAPES,
    ),
    "learning_rate_end": Setting(
        label="Final learning rate",
        help="Learning rate of the last step, as a multiple of the first step’s rate.",
        marks=(0.01, 0.1, 1, 10),
        step=0.01,
        gt=0,
        le=1000,
    ),
    "noise_schedule": Setting(
        label="Noise schedule",
        help="Change of σ from the first step to the last.",
        choices=SHAPES,
    ),
    "noise_end": Setting(
        label="Final noise",
        help="Noise multiplier of the last step, as a multiple of the first step’s σ.",
        marks=(0.1, 0.3, 1, 3, 10),
        step=0.01,
        ge=0.1,
        le=10,
    ),
    "clipping_schedule": Setting(
        label="Clipping bound schedule",
        help="Change of C from the first step to the last.",
        choices=BOUND_SHAPES,
    ),
    "clipping_end": Setting(
        label="Final clipping bound",
        help="Clipping bound of the last step, as a multiple of the first step’s C.",
        marks=(0.1, 0.3, 1, 3, 10),
        step=0.01,
        ge=0.001,
        le=1000,
    ),
    "target_quantile": Setting(
        label="Target quantile",
        help="C adapts until about this fraction of the gradients has a norm below C.",
        marks=(0, 0.25, 0.5, 0.75, 1),
        step=0.05,
        gt=0,
        lt=1,
    ),
    "bound_rate": Setting(
        label="Adaptation rate of the clipping bound",
        help="Step size of the updates of log C.",
        marks=(0.01, 0.1, 1),
        step=0.01,
        gt=0,
        le=10,
    ),
}


def schedule(shape: str, end: float, steps: int) -> Schedule | None:
    """Return the factors from 1 to ``end`` over ``steps`` steps.

    Args:
        shape: A key of SHAPES.
        end: Factor of the last step, above 0.
        steps: Steps of the run.

    Returns:
        None for a constant.
    """
    if shape == CONSTANT or steps < 2:
        return None
    if shape == "exponential":
        return Exponential(end ** (1 / (steps - 1)))
    return {"linear": Linear, "cosine": Cosine}[shape](end)


def staged(shape: str, end: float, steps: int) -> Schedule | None:
    """Return the schedule in NOISE_STAGES equally long stages, or one per step."""
    stages = min(NOISE_STAGES, steps)
    made = schedule(shape, end, stages)
    return None if made is None else Staged(made, stages)
