"""Schedules of a training run, by name: learning rate, noise, clipping bound.

Each has a shape and a factor at the last step; at the first step the factor is 1.  A
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

CONSTANT, ADAPTIVE = "constant", "adaptive"
SHAPES = {
    CONSTANT: "Constant",
    "linear": "Linear",
    "cosine": "Half a cosine",
    "exponential": "Equal ratios",
}
BOUND_SHAPES = SHAPES | {ADAPTIVE: "Follow a share of the gradients"}
#: Parts of a run with noise of their own: few, so that a search for noise is quick also
#: where samples are rare.
NOISE_STAGES = 5


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
    """Return the same in NOISE_STAGES equally long parts, or one part per step."""
    stages = min(NOISE_STAGES, steps)
    made = schedule(shape, end, stages)
    return None if made is None else Staged(made, stages)
