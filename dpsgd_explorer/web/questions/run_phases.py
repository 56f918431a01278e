"""What a run did to its records, read from its log: its phases and their δ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from dpsgd_explorer.accounting import FilteredRun, Phase
from dpsgd_explorer.errors import ConfigError

RATE_NOISE = "rate_noise_multiplier"


def budget_of(told: Iterable[Mapping[str, Any]]) -> FilteredRun | None:
    """Return the budget for changes that the ``phase`` events of a log say, if any."""
    said = next((phase["filter"] for phase in told if "filter" in phase), None)
    return FilteredRun(**said) if said else None


def phases_of(told: Iterable[Mapping[str, Any]]) -> tuple[list[Phase], float]:
    """Return what was planned, phase by phase, and at which delta.

    Args:
        told: The data of the log's ``phase`` events, in order.

    Returns:
        The phases and delta.  A learning rate that was released before the first step
        is a phase of one step.

    Raises:
        ConfigError: the run has no guarantee, or has not begun.
    """
    begun = list(told)
    if not begun or any(phase.get("noise_multiplier") is None for phase in begun):
        raise ConfigError(
            "accountant",
            "accountant must be used on a started run with noise; this run has no "
            "noise to count. Choose a private run.",
        )
    if "mean_trials" in begun[0]:
        raise ConfigError(
            "accountant",
            "accountant must be left out for a search: the ε of a search is a bound on "
            "the best of its trials, which accountants of steps do not compute.",
        )
    last = begun[-1]["steps"]
    ends = [*(later["step"] for _, later in pairwise(begun)), last]
    phases = [
        Phase(phase["sample_rate"], phase["noise_multiplier"], end - phase["step"])
        for phase, end in zip(begun, ends, strict=True)
    ]
    before = [Phase(1.0, begun[0][RATE_NOISE], 1)] if releases_before(begun) else []
    return [*before, *phases], float(begun[0]["delta"])


def releases_before(told: Sequence[Mapping[str, Any]]) -> int:
    """Return how many releases came before the first step: a learning rate's, or none.

    The phases of ``phases_of`` count each of them as a step.
    """
    return int(bool(told) and told[0].get(RATE_NOISE) is not None)


def phases_done(phases: Sequence[Phase], steps: int) -> list[Phase]:
    """Return the phases as far as a run has come: its first steps."""
    done, left = [], steps
    for phase in phases:
        taken = min(left, phase.steps)
        left -= taken
        if taken:
            done.append(replace(phase, steps=taken))
    return done
