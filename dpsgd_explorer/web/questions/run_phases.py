"""The phases of a run and their δ, read from its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from dpsgd_explorer.accounting import FilteredRun, Phase
from dpsgd_explorer.accounting.core.phase import phase_with
from dpsgd_explorer.errors import ConfigError

RATE_NOISE = "rate_noise_multiplier"


def budget_of(phase_data: Iterable[Mapping[str, Any]]) -> FilteredRun | None:
    """Return the budget for changes in a log's ``phase`` events, None without one."""
    budget = next((phase["filter"] for phase in phase_data if "filter" in phase), None)
    return FilteredRun(**budget) if budget else None


def phases_of(phase_data: Iterable[Mapping[str, Any]]) -> tuple[list[Phase], float]:
    """Return the planned phases of a run, and its δ.

    Args:
        phase_data: Data of the log's ``phase`` events, in order.

    Returns:
        The phases and δ.  A learning rate that was released before the first step is a
        phase of one step.  With correlated noise, a step of a phase is a round.

    Raises:
        ConfigError: the run has no guarantee, or has not started.
    """
    logged = list(phase_data)
    if not logged or any(phase.get("noise_multiplier") is None for phase in logged):
        raise ConfigError(
            "accountant",
            "accountant must be used on a started run with noise; this run has no "
            "noise to count. Choose a private run.",
        )
    if "mean_trials" in logged[0]:
        raise ConfigError(
            "accountant",
            "accountant must be left out for a search: the ε of a search is a bound on "
            "the best of its trials, which accountants of steps do not compute.",
        )
    last = logged[-1]["steps"]
    ends = [*(following["step"] for _, following in pairwise(logged)), last]
    phases = [
        phase_with(
            phase["sample_rate"] * phase.get("bands", 1),
            phase["noise_multiplier"],
            _rounds(phase, end) - _rounds(phase, phase["step"]),
            phase.get("slots"),
        )
        for phase, end in zip(logged, ends, strict=True)
    ]
    if _releases_before(logged):
        phases = [Phase(1.0, logged[0][RATE_NOISE], 1), *phases]
    return phases, float(logged[0]["delta"])


def _releases_before(phase_data: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of releases before the first step: 1 for a learning rate.

    ``phases_of`` counts each of them as a step.
    """
    return int(bool(phase_data) and phase_data[0].get(RATE_NOISE) is not None)


def releases_after(phase_data: Sequence[Mapping[str, Any]], steps: int) -> int:
    """Return the number of releases of ``phases_of`` after some steps of the run."""
    if not phase_data:
        return steps
    return _releases_before(phase_data) + _rounds(phase_data[0], steps)


def _rounds(phase: Mapping[str, Any], steps: int) -> int:
    """Return the number of rounds that have begun; a round of one band is a step."""
    bands: int = phase.get("bands", 1)
    return -(-steps // bands)


def phases_done(phases: Sequence[Phase], steps: int) -> list[Phase]:
    """Return the phases up to the given number of their steps."""
    taken_phases, remaining = [], steps
    for phase in phases:
        taken = min(remaining, phase.steps)
        remaining -= taken
        if taken:
            taken_phases.append(replace(phase, steps=taken))
    return taken_phases
