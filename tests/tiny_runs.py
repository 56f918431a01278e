"""The smallest run of each kind, and what the command line says of it."""

from typing import Any, NamedTuple

import pytest

from dpsgd_explorer.experiments.kinds import LAUNCHED


class Tiny(NamedTuple):
    """One run.

    Attributes:
        settings: All but its kind.
        reached: How what it reached begins.
        terms: How the terms of its ε begin.
        is_slow: Whether it takes seconds.
    """

    settings: dict[str, Any]
    reached: str
    terms: str
    is_slow: bool


STEP = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 256,
    "noise_multiplier": 1.0,
    "steps": 1,
    "evaluations": 1,
}
TINY = {
    "training": Tiny(STEP | {"steps": 2}, "accuracy", "δ = 1e-05", is_slow=False),
    "regression": Tiny(
        {"noise_multiplier": 50.0, "steps": 9, "evaluations": 1},
        "median MSE",
        "δ = 1e-06",
        is_slow=False,
    ),
    "regression_methods": Tiny(
        {"methods": "ssp", "steps": 1},
        "all methods released",
        "δ = 1e-06",
        is_slow=False,
    ),
    "engines": Tiny(
        {"model": "lstm", "width": 4, "batch_size": 2, "sequence_length": 2},
        "gradients",
        "made-up data",
        is_slow=True,
    ),
    "planted_bug": Tiny(
        {"loop": "noise_per_micro_batch"},  # the loop that is computed soonest
        "proven: epsilon at least",
        "made-up data",
        is_slow=True,
    ),
    "attack": Tiny(
        {"dataset": "adult", "model": "logistic", "steps": 2, "shadows": 4},
        "area",
        "δ = 0.0001",
        is_slow=True,
    ),
}
#: Each kind that can be launched; short runs of the tests leave out the slow ones.
EACH_KIND = [
    pytest.param(
        name, marks=[pytest.mark.long("real runs")] if TINY[name].is_slow else []
    )
    for name in LAUNCHED
]
