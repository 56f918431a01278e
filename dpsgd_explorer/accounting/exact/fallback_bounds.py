"""Fallback bounds: upper bounds on ε and δ that hold at any setting.

They serve where the integrals of the exact accountant cannot be trusted: very little
noise, sample rates next to 0 or 1.  The smallest of three is taken:

- the same steps on all records: sampling amplifies privacy, it never reduces it;
- Rényi's divergences, added up over steps and converted;
- basic composition: ε and δ of single steps, added up.

Notation: P phases, S rows of steps, A Rényi orders.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.single_step import (
    single_step_delta,
    single_step_epsilon,
)
from dpsgd_explorer.accounting.rdp.accountant import (
    RdpAccountant,
    StepDivergences,
    composed_divergences,
    delta_from_rdp,
    epsilon_from_rdp,
)
from dpsgd_explorer.accounting.rdp.replaced_record import divergence_bounds
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import renyi_divergences

#: Divergences of one step, of (sample rate, noise multiplier), within a millisecond.
DIVERGENCES: dict[str, StepDivergences] = {
    ADD_OR_REMOVE_ONE: renyi_divergences,
    REPLACE_ONE: divergence_bounds,
}


def fallback_bounds(
    phases: Sequence[Phase], counts: Floats, delta: float, relation: NeighboringRelation
) -> tuple[Floats, Floats]:
    """Return lower and upper bounds on ε of each row; [S, P] -> [S], [S].

    The lower one is ε of a single step, the largest of the row's phases.
    """
    single = [_step_epsilon(phase, delta, relation) for phase in phases]
    rounding = 1 - TOLERANCES.closed_form
    lower = ((counts > 0) * np.array(single) * rounding).max(axis=1)
    return lower, fallback_epsilons(phases, counts, delta, relation)


def fallback_epsilons(
    phases: Sequence[Phase], counts: Floats, delta: float, relation: NeighboringRelation
) -> Floats:
    """Return upper bounds on ε at delta of each row; [S, P] -> [S].

    >>> run = [Phase(0.01, 0.05, 100)]
    >>> fallback_epsilons(run, np.array([[100.0]]), 1e-5, ADD_OR_REMOVE_ONE).round(2)
    array([1746.19])
    """
    mus = _unsampled_mus(phases, counts, relation)
    unsampled = np.array([epsilon_of_mu(delta, float(mu)) for mu in mus])
    added = _basic_composition(phases, counts, delta, relation)
    renyi = np.concatenate(
        [
            epsilon_from_rdp(
                composed_divergences(phases, part, relation, DIVERGENCES), delta
            )
            for part in np.array_split(
                counts, len(counts) // RdpAccountant.max_rows + 1
            )
        ]
    )
    return np.asarray(np.minimum(np.minimum(unsampled, added), renyi))


def fallback_deltas(
    phases: Sequence[Phase],
    count: Floats,
    epsilons: Floats,
    relation: NeighboringRelation,
) -> Floats:
    """Return upper bounds on δ of one row of steps at each ε; [P], [E] -> [E]."""
    mu = float(_unsampled_mus(phases, count[None], relation)[0])
    unsampled = [delta_of_mu(float(x), mu) for x in epsilons]
    shares = epsilons / count.sum()  # ε of each step
    added = [
        sum(
            n * _step_delta(phase, float(x), relation)
            for phase, n in zip(phases, count, strict=True)
        )
        for x in shares
    ]
    [total] = composed_divergences(phases, count[None], relation, DIVERGENCES)
    renyi = [delta_from_rdp(total, float(x)) for x in epsilons]
    return np.asarray(np.minimum(np.minimum(unsampled, added), renyi))


def total_variations(phases: Sequence[Phase], relation: NeighboringRelation) -> Floats:
    """Return the total variation distance of one step of each phase, δ at ε = 0; [P].

    They add up over steps at most: if their sum is within δ, then ε = 0.
    """
    return np.array([_step_delta(phase, 0.0, relation) for phase in phases])


def _basic_composition(
    phases: Sequence[Phase], counts: Floats, delta: float, relation: NeighboringRelation
) -> Floats:
    """Return the sum of the steps' ε, each with an equal share of δ; [S, P] -> [S].

    The share is rounded down to δ over a power of 2, so that few shares are needed.
    """
    halvings = np.ceil(np.log2(np.maximum(counts.sum(axis=1), 1.0)))
    total = np.empty(len(counts))
    for number in np.unique(halvings):
        share = delta * 0.5**number
        rows = halvings == number
        epsilons = [
            _step_epsilon(phase, share, relation) if share else np.inf
            for phase in phases
        ]
        with np.errstate(invalid="ignore"):  # 0 steps of an infinite ε
            spent = np.where(counts[rows] > 0, counts[rows] * epsilons, 0.0)
        total[rows] = spent.sum(axis=1)
    return total


def _step_epsilon(phase: Phase, delta: float, relation: NeighboringRelation) -> float:
    q, sigma = phase.sample_rate, phase.noise_multiplier
    return single_step_epsilon(q, sigma, delta, relation)


def _step_delta(phase: Phase, epsilon: float, relation: NeighboringRelation) -> float:
    q, sigma = phase.sample_rate, phase.noise_multiplier
    return single_step_delta(q, sigma, epsilon, relation)


def _unsampled_mus(
    phases: Sequence[Phase], counts: Floats, relation: NeighboringRelation
) -> Floats:
    """Return μ of the Gaussian that the steps on all records are; [S, P] -> [S].

    A sampled step mixes the Gaussian's pair with a pair of equal distributions.  δ is
    jointly convex, so that the mixture's curve is nowhere larger.
    """
    rates = np.array([relation.sensitivity / p.noise_multiplier for p in phases])
    return np.asarray(np.sqrt(counts @ rates**2))
