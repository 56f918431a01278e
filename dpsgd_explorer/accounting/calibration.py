"""The noise that a target needs and the steps that it allows, on the safe side."""

from __future__ import annotations

import math

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.root_finding import (
    PRECISION,
    confirmed,
    least_noise,
    most_steps,
    near_noise,
    unreachable,
)
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.exact.initial_noise import noise_start, steps_start
from dpsgd_explorer.accounting.registry import accountant_and_relation


def noise_multiplier(
    target_epsilon: float,
    sample_rate: float,
    steps: int,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    *,
    quick: bool = False,
) -> float:
    """Return the least noise multiplier with which all steps spend at most the target.

    Args:
        target_epsilon: Greater than 0.
        sample_rate: Poisson inclusion probability q a step, in (0, 1].
        steps: At least 1.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS.
        neighboring_relation: What one record may change.
        quick: Search with bounds that take a few milliseconds, not to the last digit.

    Returns:
        Never below the least one: ``epsilon`` of it is at most the target.  Within
        1e-9 of the least, where ε is exact there; else, and if quick, as near as the
        bound on ε is.

    Raises:
        AccountingError: an argument is outside its domain, or no noise reaches the
            target.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    target, slack = domains.target_epsilon(target_epsilon), domains.delta(delta)
    count, rate = domains.steps(steps, least=1), domains.sample_rate(sample_rate)

    def spent(one: Accountant, noise: float) -> float:
        run = Phase(sample_rate, noise, count)
        return float(one.epsilons([run], [count], slack, relation)[0])

    def search(one: Accountant) -> float:
        start, steepness = noise_start(target, rate, count, slack, relation)
        if quick:
            return near_noise(
                lambda x: _log_ratio(spent(one, x), target), start, steepness
            )
        return least_noise(
            lambda x: _excess(spent(one, x), target), start, PRECISION, steepness
        )

    def keeps(one: Accountant, noise: float) -> bool:
        return math.isfinite(noise) and spent(one, noise) <= target

    searchers = chosen.searchers(relation, quick=quick)
    noise = confirmed(searchers, search, keeps)
    if math.isinf(noise):
        raise unreachable(target_epsilon, spent(chosen, MAX_NOISE_MULTIPLIER))
    return noise


def _excess(spent: float, target: float) -> float:
    """Return a smooth number in [-1, 1] that has the exact sign of spent - target."""
    return 1.0 if math.isinf(spent) else (spent - target) / max(spent, target)


def _log_ratio(spent: float, target: float) -> float:
    return math.log(spent) - math.log(target) if spent > 0 else -math.inf


def steps(
    target_epsilon: float,
    sample_rate: float,
    noise_multiplier: float,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    *,
    quick: bool = False,
    most: int = MAX_STEPS,
) -> int:
    """Return the largest number of steps that spends at most the target.

    Args:
        target_epsilon: Greater than 0.
        sample_rate: Poisson inclusion probability q a step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 allows no step.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS.
        neighboring_relation: What one record may change.
        quick: Search with bounds that take a few milliseconds: never too many steps.
        most: That are of interest.

    Returns:
        From 0 to most.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    target, slack = domains.target_epsilon(target_epsilon), domains.delta(delta)
    run = Phase(sample_rate, noise_multiplier, MAX_STEPS)

    def excess(one: Accountant, count: int) -> float:
        spent = one.epsilons([run], [count], slack, relation)[0]
        return _log_ratio(float(spent), target)

    def search(one: Accountant) -> int:
        start = steps_start(
            target,
            run.sample_rate,
            run.noise_multiplier,
            slack,
            relation,
        )
        return most_steps(lambda x: excess(one, x), min(start, most), most)

    def keeps(one: Accountant, count: int) -> bool:
        return excess(one, count) <= 0

    searchers = chosen.searchers(relation, quick=quick)
    return confirmed(searchers, search, keeps)
