"""Fallback bounds: upper bounds on ε and δ that hold at any setting.

They serve where the integrals of the exact accountant cannot be trusted: very little
noise, sample rates next to 0 or 1.  The smallest of three is taken:

- the same steps on all records: sampling amplifies privacy, it never reduces it;
- Rényi's divergences, added up over steps and converted;
- basic composition: ε and δ of single steps, added up.

Notation: P phases, S rows of steps, A Rényi orders.
"""

from __future__ import annotations

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import Phase, StepCounts
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


def fallback_bounds(run: StepCounts, delta: float) -> tuple[Floats, Floats]:
    """Return lower and upper bounds on ε of each row; [S], [S].

    The lower one is ε of a single step, the largest of the row's phases.
    """
    single = [_step_epsilon(phase, delta, run.relation) for phase in run.phases]
    rounding = 1 - TOLERANCES.closed_form
    lower = ((run.counts > 0) * np.array(single) * rounding).max(axis=1)
    return lower, fallback_epsilons(run, delta)


def fallback_epsilons(run: StepCounts, delta: float) -> Floats:
    """Return upper bounds on ε at delta of each row; [S].

    >>> run = StepCounts.whole([Phase(0.01, 0.05, 100)], ADD_OR_REMOVE_ONE)
    >>> fallback_epsilons(run, 1e-5).round(2)
    array([1746.19])
    """
    unsampled = [epsilon_of_mu(delta, float(mu)) for mu in _unsampled_mus(run)]
    added = _basic_composition(run, delta)
    renyi = np.concatenate(
        [
            epsilon_from_rdp(composed_divergences(part, DIVERGENCES), delta)
            for part in run.split(RdpAccountant.max_rows)
        ]
    )
    return np.asarray(np.minimum(np.minimum(unsampled, added), renyi))


def fallback_deltas(run: StepCounts, epsilons: Floats) -> Floats:
    """Return upper bounds on δ of the only row at each ε; [E] -> [E]."""
    mu = float(_unsampled_mus(run)[0])
    unsampled = [delta_of_mu(float(x), mu) for x in epsilons]
    shares = epsilons / run.counts.sum()  # ε of each step
    added = [
        sum(
            n * _step_delta(phase, float(x), run.relation)
            for phase, n in zip(run.phases, run.counts[0], strict=True)
        )
        for x in shares
    ]
    [total] = composed_divergences(run, DIVERGENCES)
    renyi = [delta_from_rdp(total, float(x)) for x in epsilons]
    return np.asarray(np.minimum(np.minimum(unsampled, added), renyi))


def total_variations(run: StepCounts) -> Floats:
    """Return the total variation distance of one step of each phase, δ at ε = 0; [P].

    They add up over steps at most: if their sum is within δ, then ε = 0.
    """
    return np.array([_step_delta(phase, 0.0, run.relation) for phase in run.phases])


def _basic_composition(run: StepCounts, delta: float) -> Floats:
    """Return the sum of the steps' ε, each with an equal share of δ; [S].

    The share is rounded down to δ over a power of 2, so that few shares are needed.
    """
    counts = run.counts
    halvings = np.ceil(np.log2(np.maximum(counts.sum(axis=1), 1.0)))
    total = np.empty(len(counts))
    for number in np.unique(halvings):
        share = delta * 0.5**number
        rows = halvings == number
        epsilons = [
            _step_epsilon(phase, share, run.relation) if share else np.inf
            for phase in run.phases
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


def _unsampled_mus(run: StepCounts) -> Floats:
    """Return μ of the Gaussian that the steps on all records are; [S].

    A sampled step mixes the Gaussian's pair with a pair of equal distributions.  δ is
    jointly convex, so that the mixture's curve is nowhere larger.
    """
    moves = run.relation.sensitivity
    rates = np.array([moves / phase.noise_multiplier for phase in run.phases])
    return np.asarray(np.sqrt(run.counts @ rates**2))
