"""The noise, steps or sample rate of a run that meets a target, on its safe side.

Each function answers for one run with unchanging settings; ``remaining`` for phases,
after others.
"""

from __future__ import annotations

import math

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.initial_guesses import rate_guess
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.root_finding import (
    PRECISION,
    least_noise,
    most_steps,
    near_noise,
    unreachable,
)
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.exact.initial_noise import noise_start, steps_start
from dpsgd_explorer.accounting.target import Target

LEAST_RATE = 1e-9  # of the sample rates that a search returns


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
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        steps: At least 1.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        quick: Search with bounds that take a few milliseconds, not to the last digit.

    Returns:
        Never below the least one: ``epsilon`` of it is at most the target.  Within
        1e-9 of the least, where ε is exact there; else, and if quick, as near as the
        bound on ε is.

    Raises:
        AccountingError: an argument is outside its domain, or no noise reaches the
            target.
    """
    target = Target.of(target_epsilon, delta, accountant, neighboring_relation)
    steps, rate = validation.steps(steps, least=1), validation.sample_rate(sample_rate)

    def run(noise: float) -> list[Phase]:
        return [Phase(sample_rate, noise, steps)]

    def find(searcher: Accountant) -> float:
        start, steepness = noise_start(
            target.epsilon, rate, steps, target.delta, target.relation
        )
        if quick:
            return near_noise(
                lambda x: target.log_excess(searcher, run(x)), start, steepness
            )
        return least_noise(
            lambda x: target.excess(searcher, run(x)), start, PRECISION, steepness
        )

    noise = target.search(find, lambda x, y: target.spent(x, run(y)), quick=quick)
    if math.isinf(noise):
        least = target.spent(target.accountant, run(MAX_NOISE_MULTIPLIER))
        raise unreachable(target_epsilon, least)
    return noise


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
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 allows no step.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        quick: Search with bounds that take a few milliseconds: never too many steps.
        most: Largest number of steps to return.

    Returns:
        From 0 to most.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    target = Target.of(target_epsilon, delta, accountant, neighboring_relation)
    run = Phase(sample_rate, noise_multiplier, MAX_STEPS)

    def find(searcher: Accountant) -> int:
        start = steps_start(
            target.epsilon,
            run.sample_rate,
            run.noise_multiplier,
            target.delta,
            target.relation,
        )
        return most_steps(
            lambda x: target.log_excess(searcher, [run], x), min(start, most), most
        )

    return target.search(find, lambda x, y: target.spent(x, [run], y), quick=quick)


def sample_rate(
    target_epsilon: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> float:
    """Return the largest sample rate with which all steps spend at most the target.

    Args:
        target_epsilon: Greater than 0.
        noise_multiplier: Noise std over the clipping bound.
        steps: At least 1.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Returns:
        From 1e-9 to 1; ``epsilon`` of it is at most the target.

    Raises:
        AccountingError: an argument is outside its domain, or no sample rate of at
            least 1e-9 reaches the target.
    """
    target = Target.of(target_epsilon, delta, accountant, neighboring_relation)
    steps = validation.steps(steps, least=1)
    noise = validation.noise_multiplier(noise_multiplier)

    def spent(searcher: Accountant, rate: float) -> float:
        return target.spent(searcher, [Phase(rate, noise, steps)])

    def excess(searcher: Accountant, rarity: float) -> float:
        """Return the excess of a sample rate of 1 / rarity: ε falls with rarity."""
        rate = min(max(1 / rarity, LEAST_RATE), 1.0)
        return target.excess(searcher, [Phase(rate, noise, steps)])

    def find(searcher: Accountant) -> float:
        guess = rate_guess(target.epsilon, noise, steps, target.delta)
        start = 1 / max(guess, LEAST_RATE)
        rarity = least_noise(lambda x: excess(searcher, x), start, PRECISION)
        return max(1 / rarity, LEAST_RATE)

    if spent(target.accountant, 1.0) <= target.epsilon:
        return 1.0
    least = spent(target.accountant, LEAST_RATE)
    if least > target.epsilon:
        raise unreachable(target_epsilon, least, "sample rate")
    return target.search(find, spent)
