"""Fallback bounds: upper bounds on ε and δ that hold at any setting.

They are used where the integrals of the exact accountant cannot be trusted: very little
noise, sample rates next to 0 or 1.  The result is the smallest of four bounds:

- the same steps on all records: sampling amplifies privacy, it never reduces it;
- Rényi's divergences, added up over steps and converted;
- basic composition: ε and δ of single steps, added up;
- for one phase with little noise: the privacy curve for an attacker who also sees which
  steps the record joins, which little noise nearly reveals anyway.

Notation: P phases, S rows of steps, A Rényi orders.
"""

from __future__ import annotations

import math

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.binomial import probability_at_least
from dpsgd_explorer.accounting.core.gaussian import (
    delta_of_mu,
    deltas_of_mu,
    epsilon_of_mu,
)
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import Phase, StepCounts
from dpsgd_explorer.accounting.core.root_finding import first_safe
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

#: Functions from (sample rate, noise multiplier) to the divergences of one step, which
#: take less than a millisecond.
DIVERGENCES: dict[str, StepDivergences] = {
    ADD_OR_REMOVE_ONE: renyi_divergences,
    REPLACE_ONE: divergence_bounds,
}

#: Noise multiplier below which the attacker is assumed to see the joined steps.
MAX_REVEALING_NOISE = 0.4
#: Groups of numbers of joined steps; each number counts as the largest in its group.
JOIN_GROUPS = 128
#: Largest probability of more joined steps than in the first group.
FIRST_GROUP_TAIL = 0.5
#: Share of δ for more joined steps than in the last group.
LAST_GROUP_SHARE = 1e-6
#: Times that a bound on δ is computed, each with this share of the bound before.
PASSES = 3
#: ε below which the search for a smaller one ends.
MIN_EPSILON = 1e-9


def fallback_bounds(run: StepCounts, delta: float) -> tuple[Floats, Floats]:
    """Returns lower and upper bounds on ε of each row; [S], [S].

    The lower bound is ε of a single step, the largest over the row's phases.
    """
    single = [_step_epsilon(phase, delta, run.relation) for phase in run.phases]
    rounding = 1 - TOLERANCES.closed_form
    lower = ((run.counts > 0) * np.array(single) * rounding).max(axis=1)
    return lower, fallback_epsilons(run, delta)


def fallback_epsilons(run: StepCounts, delta: float) -> Floats:
    """Returns upper bounds on ε at delta of each row; [S].

    >>> run = StepCounts.whole([Phase(0.01, 0.05, 100)], ADD_OR_REMOVE_ONE)
    >>> fallback_epsilons(run, 1e-5).round(2)
    array([1496.69])
    """
    unsampled = [epsilon_of_mu(delta, float(mu)) for mu in _unsampled_mus(run)]
    added = _basic_composition(run, delta)
    renyi = np.concatenate(
        [
            epsilon_from_rdp(composed_divergences(part, DIVERGENCES), delta)
            for part in run.split(RdpAccountant.max_rows)
        ]
    )
    least = np.asarray(np.minimum(np.minimum(unsampled, added), renyi))
    if _nearly_reveals_joins(run):
        revealed = [_revealed_epsilon(run, row, delta) for row in range(len(run))]
        return np.asarray(np.minimum(least, revealed))
    return least


def fallback_deltas(run: StepCounts, epsilons: Floats) -> Floats:
    """Returns upper bounds on δ of the only row at each ε; [E] -> [E]."""
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
    least = np.asarray(np.minimum(np.minimum(unsampled, added), renyi))
    if _nearly_reveals_joins(run):
        bounds = zip(epsilons, least, strict=True)
        return np.array(
            [_revealed_delta(run, float(x), float(most)) for x, most in bounds]
        )
    return least


def total_variations(run: StepCounts) -> Floats:
    """Returns the total variation distance of one step of each phase, δ at ε = 0; [P].

    Over steps they add up at most: if their sum is within δ, then ε = 0.
    """
    return np.array([_step_delta(phase, 0.0, run.relation) for phase in run.phases])


class _RevealedJoins:
    """One row of a run, for an attacker who sees which steps the record joins.

    A run is a mixture over the sets of steps that the record joins.  The probabilities
    of the sets do not depend on the record.  δ is jointly convex, so it is at most the
    mean over the sets of the δ of a Gaussian: k joined steps have
    μ = √k · sensitivity / σ.

    Args:
        run: A run of one phase.
        row: Index of the row of step counts.
        tail: Largest probability of more joined steps than in the last group, for which
            δ counts as 1.
    """

    def __init__(self, run: StepCounts, row: int, tail: float) -> None:
        [phase], steps = run.phases, int(run.counts[row, 0])
        rate = phase.sample_rate
        last = _first_within(tail, steps, rate)
        first = min(_first_within(FIRST_GROUP_TAIL, steps, rate), last)
        ends = np.unique(np.rint(np.linspace(first, last, JOIN_GROUPS + 1)))
        more = probability_at_least(ends + 1, steps, rate)
        shares = -np.diff(more, prepend=1.0)
        joins = ends > 0  # joining no step makes no difference
        self._shares, self._rest = shares[joins], float(more[-1])
        self._mus = np.sqrt(ends[joins]) * (
            run.relation.sensitivity / phase.noise_multiplier
        )

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound on δ at ε >= 0."""
        losses = np.full(len(self._mus), epsilon)
        deltas = np.maximum(deltas_of_mu(losses, self._mus), 0.0)
        total = float(self._shares @ deltas) + self._rest
        return min(total * (1 + TOLERANCES.closed_form), 1.0)


def _first_within(tail: float, steps: int, rate: float) -> int:
    """Returns the least k with P(more than k steps are joined) <= tail."""
    low, high = -1, steps
    while high - low > 1:
        middle = (low + high) // 2
        if probability_at_least(middle + 1, steps, rate) <= tail:
            high = middle
        else:
            low = middle
    return high


def _nearly_reveals_joins(run: StepCounts) -> bool:
    return len(run.phases) == 1 and run.phases[0].noise_multiplier < MAX_REVEALING_NOISE


def _revealed_epsilon(run: StepCounts, row: int, delta: float) -> float:
    """Returns an upper bound on ε of a row, if the attacker sees the joined steps."""
    joins = _RevealedJoins(run, row, LAST_GROUP_SHARE * delta)
    most = epsilon_of_mu(delta / 2, float(_unsampled_mus(run)[row]))
    if not math.isfinite(most):
        return most
    while joins.delta(most / 2) <= delta:
        most /= 2
        if most < MIN_EPSILON:
            return most
    return first_safe(lambda epsilon: joins.delta(epsilon) - delta, most / 2, most)


def _revealed_delta(run: StepCounts, epsilon: float, most: float) -> float:
    """Returns the smaller of ``most`` and δ if the attacker sees the joined steps."""
    for _ in range(PASSES):  # the share for the last group shrinks with the bound
        bound = _RevealedJoins(run, 0, LAST_GROUP_SHARE * most).delta(epsilon)
        most = min(bound, most)
    return most


def _basic_composition(run: StepCounts, delta: float) -> Floats:
    """Returns the sum of the steps' ε, each with an equal share of δ; [S].

    The share is rounded down to δ over a power of 2, so that few different shares have
    to be evaluated.
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
    """Returns μ of the Gaussian that the steps form without sampling; [S].

    A sampled step mixes the Gaussian's pair with a pair of equal distributions.  δ is
    jointly convex, so the mixture's curve is nowhere larger.
    """
    sensitivity = run.relation.sensitivity
    mus = np.array([sensitivity / phase.noise_multiplier for phase in run.phases])
    return np.asarray(np.sqrt(run.counts @ mus**2))
