"""The phases of a run, merged and classified for the exact accountant.

Phases with equal settings are merged.  The rest is classified by two properties: a
closed form exists, and the integrals can be trusted.

Notation: P phases, S rows of steps, p merged phases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.phase import (
    AllocationPhase,
    Phase,
    StepCounts,
    require_poisson,
)
from dpsgd_explorer.accounting.exact.single_step import (
    single_step_delta,
    single_step_epsilon,
)

#: Smallest sample rate, smallest distance of a sample rate from 1, and smallest noise
#: multiplier for which the integrals are trusted.  Otherwise fallback bounds are used.
MIN_RATE = 1e-9
MIN_NOISE = 0.1


def merged(run: StepCounts) -> StepCounts:
    """Returns the rows with one phase per setting, without phases that have no step.

    Raises:
        AccountingError: steps use random allocation.
    """
    require_poisson(run.phases, "this computation")
    reached = [
        (phase.sample_rate, phase.noise_multiplier, done)
        for phase, done in zip(run.phases, run.counts.T, strict=True)
        if done.any()
    ]
    settings = dict.fromkeys((q, sigma) for q, sigma, _ in reached)
    indices = {setting: i for i, setting in enumerate(settings)}
    counts = np.zeros((len(settings), len(run)))
    for q, sigma, done in reached:
        counts[indices[q, sigma]] += done
    phases = [Phase(q, sigma, 0) for q, sigma in settings]
    return StepCounts(phases, counts.T, run.relation)


def needs_composition(run: StepCounts) -> npt.NDArray[np.bool_]:
    """Returns True for rows without a closed form; [S].

    These rows have two or more steps, at least one of them on a sample, and all with
    noise.  Without noise ε is infinite.
    """
    sampled = np.array([phase.sample_rate < 1 for phase in run.phases], dtype=bool)
    noiseless = np.array([p.noise_multiplier == 0 for p in run.phases], dtype=bool)
    done = run.counts > 0
    several = run.counts.sum(axis=1) > 1
    composed = several & done[:, sampled].any(axis=1)
    return np.asarray(composed & ~done[:, noiseless].any(axis=1))


def are_within_reach(run: StepCounts) -> bool:
    """Returns True if the integrals can be trusted for the steps of every row."""
    return all(
        phase.noise_multiplier >= MIN_NOISE
        and phase.sample_rate >= MIN_RATE
        and (phase.sample_rate == 1 or phase.sample_rate < 1 - MIN_RATE)
        for phase, done in zip(run.phases, run.counts.max(axis=0), strict=True)
        if done
    )


def closed_epsilon(run: StepCounts, delta: float) -> float:
    """Returns ε at delta of the only row, which has a closed form."""
    if (only := single_sampled_step(run)) is not None:
        q, sigma = only.sample_rate, only.noise_multiplier
        return single_step_epsilon(q, sigma, delta, run.relation)
    return epsilon_of_mu(delta, _gaussian_mu(run))


def closed_delta(run: StepCounts, epsilon: float) -> float:
    """Returns δ at epsilon of the only row, which has a closed form."""
    if (only := single_sampled_step(run)) is not None:
        q, sigma = only.sample_rate, only.noise_multiplier
        return single_step_delta(q, sigma, epsilon, run.relation)
    return delta_of_mu(epsilon, _gaussian_mu(run))


def single_sampled_step(run: StepCounts) -> Phase | None:
    """Returns the phase of a row that consists of one step on a sample, with noise."""
    if run.counts.sum() != 1:
        return None
    phase = run.phases[int(run.counts.argmax())]
    is_sampled = phase.sample_rate < 1 and phase.noise_multiplier > 0
    return phase if is_sampled else None


def _gaussian_mu(run: StepCounts) -> float:
    """Returns μ of the Gaussian that the only row's steps form together."""
    done = [(phase, n) for phase, n in zip(run.phases, run.counts[0], strict=True) if n]
    if any(phase.noise_multiplier == 0 for phase, _ in done):
        return math.inf
    roots = [math.sqrt(n) / phase.noise_multiplier for phase, n in done]
    return run.relation.sensitivity * math.hypot(*roots)


def monotone_bounds(
    counts: Floats, lower: Floats, upper: Floats
) -> tuple[Floats, Floats]:
    """Returns the bounds of each row, tightened by the bounds of other rows.

    ε rises with the steps.  Two rows can be compared if one of them has, in no phase,
    fewer steps than the other.

    Shapes: counts [S, P], lower, upper [S] -> [S], [S].
    """
    order = np.argsort(counts.sum(axis=1), kind="stable")
    if np.any(np.diff(counts[order], axis=0) < 0):
        return lower, upper
    low, high = np.empty_like(lower), np.empty_like(upper)
    low[order] = np.maximum.accumulate(lower[order])
    high[order] = np.minimum.accumulate(upper[order][::-1])[::-1]
    return low, high


def revealed_probability(phases: Sequence[Phase]) -> float:
    """Returns the probability that a record joins a step without noise."""
    return 1 - math.prod(
        _hidden_probability(phase) for phase in phases if phase.noise_multiplier == 0
    )


def _hidden_probability(phase: Phase) -> float:
    """Returns the probability that a record joins no step of a phase."""
    if isinstance(phase, AllocationPhase):
        return max(1 - phase.steps / phase.slots, 0.0)
    return float((1 - phase.sample_rate) ** phase.steps)
