"""The phases of a run: equal settings merged, closed forms, reach and work."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.exact.single_step import (
    single_step_delta,
    single_step_epsilon,
)

LEAST_RATE = 1e-9  # below it, or with less noise, only a bound is given
LEAST_NOISE = 0.1
RARELY, OFTEN = 0.1, 30.0  # steps with a record, on average
LITTLE_NOISE = 0.4
MANY = 1000.0  # of them, up to which little noise takes longer
USUAL_WORK, FEW_WORK = (2.0, 1.0), (2.0, 1.5)  # as ``phase_work``
SPARSE_WORK, RARE_WORK = (40.0, 3.0), (70.0, 2.0)


def without_closed_form(
    phases: Sequence[Phase], counts: Floats
) -> npt.NDArray[np.bool_]:
    """Tell which rows take two or more steps, one of them on a sample; [S, P] -> [S].

    Without noise there is a closed form as well: infinity.
    """
    sampled = np.array([phase.sample_rate < 1 for phase in phases], dtype=bool)
    silent = np.array([phase.noise_multiplier == 0 for phase in phases], dtype=bool)
    done = counts > 0
    several = counts.sum(axis=1) > 1
    rest = several & done[:, sampled].any(axis=1)
    return np.asarray(rest & ~done[:, silent].any(axis=1))


def closed_epsilon(
    phases: Sequence[Phase], count: Floats, delta: float, relation: NeighboringRelation
) -> float:
    """Return ε of a row with a closed form."""
    if (only := sampled_step(phases, count)) is not None:
        q, sigma = only.sample_rate, only.noise_multiplier
        return single_step_epsilon(q, sigma, delta, relation)
    return epsilon_of_mu(delta, gaussian_mu(phases, count, relation))


def closed_delta(
    phases: Sequence[Phase],
    count: Floats,
    epsilon: float,
    relation: NeighboringRelation,
) -> float:
    """Return δ of a row with a closed form."""
    if (only := sampled_step(phases, count)) is not None:
        q, sigma = only.sample_rate, only.noise_multiplier
        return single_step_delta(q, sigma, epsilon, relation)
    return delta_of_mu(epsilon, gaussian_mu(phases, count, relation))


def sampled_step(phases: Sequence[Phase], count: Floats) -> Phase | None:
    """Return the phase of a run that consists of one subsampled step."""
    if count.sum() != 1:
        return None
    phase = phases[int(count.argmax())]
    sampled = phase.sample_rate < 1 and phase.noise_multiplier > 0
    return phase if sampled else None


def gaussian_mu(
    phases: Sequence[Phase], count: Floats, relation: NeighboringRelation
) -> float:
    """Return μ of the one Gaussian that steps on all records are."""
    done = [(phase, n) for phase, n in zip(phases, count, strict=True) if n]
    if any(phase.noise_multiplier == 0 for phase, _ in done):
        return math.inf
    roots = [math.sqrt(n) / phase.noise_multiplier for phase, n in done]
    return relation.sensitivity * math.hypot(*roots)


def merged(phases: Sequence[Phase], counts: Floats) -> tuple[list[Phase], Floats]:
    """Return the phases that any row gets to, no two of them with the same settings.

    Shapes: counts [S, P] -> [S, p].
    """
    reached = [
        (phase.sample_rate, phase.noise_multiplier, done)
        for phase, done in zip(phases, counts.T, strict=True)
        if done.any()
    ]
    settings = dict.fromkeys((q, sigma) for q, sigma, _ in reached)
    places = {setting: i for i, setting in enumerate(settings)}
    merged = np.zeros((len(settings), len(counts)))
    for q, sigma, done in reached:
        merged[places[q, sigma]] += done
    merged = merged.T
    return [Phase(q, sigma, 0) for q, sigma in settings], merged


def within_reach(phases: Sequence[Phase], count: Floats) -> bool:
    """Tell whether the integrals can be trusted for all the steps that are done."""
    return all(
        phase.noise_multiplier >= LEAST_NOISE
        and phase.sample_rate >= LEAST_RATE
        and (phase.sample_rate == 1 or phase.sample_rate < 1 - LEAST_RATE)
        for phase, n in zip(phases, count, strict=True)
        if n
    )


def revealed(phases: Sequence[Phase]) -> float:
    """Return the probability that a record takes part in a step without noise."""
    hidden = [(1 - p.sample_rate) ** p.steps for p in phases if p.noise_multiplier == 0]
    return 1 - math.prod(hidden)


def phase_work(phases: Sequence[Phase]) -> tuple[float, float]:
    """Return what a different phase takes: more, the more rarely a record takes part.

    Then losses are rare and large, and lines need many frequencies, or are in vain.
    """
    sampled = [phase for phase in phases if phase.sample_rate < 1 and phase.steps]
    expected = math.fsum(phase.sample_rate * phase.steps for phase in sampled)
    least = min((phase.noise_multiplier for phase in sampled), default=math.inf)
    if not sampled or expected >= MANY:
        return USUAL_WORK
    if expected < RARELY:
        return RARE_WORK
    if least < LITTLE_NOISE:
        return SPARSE_WORK
    return FEW_WORK if expected < OFTEN else USUAL_WORK
