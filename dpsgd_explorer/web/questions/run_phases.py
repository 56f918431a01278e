"""What a run did to its records, read from its log: its phases and their δ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.errors import ConfigError


def phases_of(told: Iterable[dict[str, Any]]) -> tuple[list[Phase], float]:
    """Return what was planned, phase by phase, and at which delta.

    Args:
        told: The data of the log's ``phase`` events, in order.

    Raises:
        ConfigError: the run has no guarantee, or has not begun.
    """
    begun = list(told)
    if not begun or any(phase.get("noise_multiplier") is None for phase in begun):
        raise ConfigError(
            "accountant",
            "accountant needs a run that has begun and adds noise; this one has no "
            "noise to count. Choose a private run.",
        )
    last = begun[-1]["steps"]
    ends = [*(later["step"] for _, later in pairwise(begun)), last]
    phases = [
        Phase(phase["sample_rate"], phase["noise_multiplier"], end - phase["step"])
        for phase, end in zip(begun, ends, strict=True)
    ]
    return phases, float(begun[0]["delta"])


def phases_done(phases: Sequence[Phase], steps: int) -> list[Phase]:
    """Return the phases as far as a run has come: its first steps."""
    done, left = [], steps
    for phase in phases:
        taken = min(left, phase.steps)
        left -= taken
        if taken:
            done.append(replace(phase, steps=taken))
    return done
