"""Bounds that always hold, for settings that the integrals cannot be trusted with.

- that of the same steps on all records: sampling never tells more;
- Rényi's;
- what each step spends, added up (basic composition).

The least of them is taken, for either neighbouring relation.

Notation: P phases, S rows of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.exact.single_step import (
    single_step_delta,
    single_step_epsilon,
)
from dpsgd_explorer.accounting.rdp.accountant import (
    AT_ONCE,
    added_up,
    delta_from_rdp,
    epsilon_from_rdp,
)
from dpsgd_explorer.accounting.rdp.replaced_record import divergence_bounds
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import renyi_divergences

ROUNDING = 1e-10  # relative error of the closed forms, generously
DIVERGENCES: dict[
    str, Callable[[float, float], Floats]
] = {  # of a step; those that take a millisecond
    ADD_OR_REMOVE_ONE: renyi_divergences,
    REPLACE_ONE: divergence_bounds,
}


def crude(
    phases: Sequence[Phase], counts: Floats, delta: float, relation: NeighboringRelation
) -> tuple[Floats, Floats]:
    """Return bounds that always hold, of one step of each phase and of all steps."""
    losses = [_step_epsilon(phase, delta, relation) for phase in phases]
    lower = ((counts > 0) * np.array(losses) * (1 - ROUNDING)).max(axis=1)
    return lower, crude_epsilons(phases, counts, delta, relation)


def crude_epsilons(
    phases: Sequence[Phase], counts: Floats, delta: float, relation: NeighboringRelation
) -> Floats:
    """Return an upper bound on ε of each row; [S]."""
    mus = _unsampled_mu(phases, counts, relation)
    unsampled = np.array([epsilon_of_mu(delta, float(mu)) for mu in mus])
    added = _added_up(phases, counts, delta, relation)
    renyi = np.concatenate(
        [
            epsilon_from_rdp(_divergences(phases, part, relation), delta)
            for part in np.array_split(counts, len(counts) // AT_ONCE + 1)
        ]
    )
    return np.asarray(np.minimum(np.minimum(unsampled, added), renyi))


def crude_deltas(
    phases: Sequence[Phase],
    count: Floats,
    epsilons: Floats,
    relation: NeighboringRelation,
) -> tuple[Floats, Floats]:
    """Return the same the other way round, with 0 on the other side."""
    mu = float(_unsampled_mu(phases, count[None], relation)[0])
    unsampled = [delta_of_mu(float(x), mu) for x in epsilons]
    spread = epsilons / count.sum()  # of each step; their δ add up
    added = [
        sum(
            n * _step_delta(phase, float(x), relation)
            for phase, n in zip(phases, count, strict=True)
        )
        for x in spread
    ]
    total = _divergences(phases, count[None], relation)[0]
    renyi = [delta_from_rdp(total, float(x)) for x in epsilons]
    least = np.minimum(np.minimum(unsampled, added), renyi)
    return np.zeros(len(epsilons)), least


def _added_up(
    phases: Sequence[Phase], counts: Floats, delta: float, relation: NeighboringRelation
) -> Floats:
    """Return the ε of all steps added up, each with an equal share of δ; [S].

    The share is rounded down to a power of 2, so that few of them are asked for.
    """
    halvings = np.ceil(np.log2(np.maximum(counts.sum(axis=1), 1.0)))
    total = np.empty(len(counts))
    for number in np.unique(halvings):
        share = delta * 0.5**number
        rows = halvings == number
        losses = [
            _step_epsilon(phase, share, relation) if share else np.inf
            for phase in phases
        ]
        with np.errstate(invalid="ignore"):  # no step of a phase without an ε
            spent = np.where(counts[rows] > 0, counts[rows] * losses, 0.0)
        total[rows] = spent.sum(axis=1)
    return total


def _step_epsilon(phase: Phase, delta: float, relation: NeighboringRelation) -> float:
    """Return ε at delta of one step of a phase with noise."""
    q, sigma = phase.sample_rate, phase.noise_multiplier
    if q == 1:
        return epsilon_of_mu(delta, relation.sensitivity / sigma)
    return single_step_epsilon(q, sigma, delta, relation)


def _step_delta(phase: Phase, epsilon: float, relation: NeighboringRelation) -> float:
    """Return δ at epsilon of the same."""
    q, sigma = phase.sample_rate, phase.noise_multiplier
    if q == 1:
        return delta_of_mu(epsilon, relation.sensitivity / sigma)
    return single_step_delta(q, sigma, epsilon, relation)


def _divergences(
    phases: Sequence[Phase], counts: Floats, relation: NeighboringRelation
) -> Floats:
    """Return bounds on Rényi's divergences of each row; [S, P] -> [S, A]."""
    of_step = DIVERGENCES[relation]
    steps = [of_step(phase.sample_rate, phase.noise_multiplier) for phase in phases]
    return added_up(counts, np.array(steps))


def variations(phases: Sequence[Phase], relation: NeighboringRelation) -> Floats:
    """Return the total variation of a step of each phase, [P].

    They add up over steps: a sum within δ makes ε 0.
    """
    return np.array([_step_delta(phase, 0.0, relation) for phase in phases])


def _unsampled_mu(
    phases: Sequence[Phase], counts: Floats, relation: NeighboringRelation
) -> Floats:
    """Return μ if every step used all records; [S, P] -> [S].

    A sample mixes both sides with the same third distribution, which tells no more.
    """
    rates = np.array([relation.sensitivity / p.noise_multiplier for p in phases])
    return np.asarray(np.sqrt(counts @ rates**2))


def done_phases(phases: Sequence[Phase], count: Floats) -> list[Phase]:
    """Return the phases with so many steps of each."""
    return [
        Phase(phase.sample_rate, phase.noise_multiplier, int(n))
        for phase, n in zip(phases, count, strict=True)
    ]
