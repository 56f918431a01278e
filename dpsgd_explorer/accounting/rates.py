"""The sample rate for a target: ε rises with it."""

from __future__ import annotations

import math

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.initial_guesses import rate_guess
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.root_finding import (
    PRECISION,
    confirmed,
    least_noise,
    unreachable,
)
from dpsgd_explorer.accounting.registry import accountant_and_relation

LEAST_RATE = 1e-9


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
        accountant: Name in ACCOUNTANTS.
        neighboring_relation: What one record may change.

    Returns:
        From 1e-9 to 1; ``epsilon`` of it is at most the target.

    Raises:
        AccountingError: an argument is outside its domain, or no sample rate of at
            least 1e-9 reaches the target.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    target, slack = domains.target_epsilon(target_epsilon), domains.delta(delta)
    count = domains.steps(steps, least=1)
    noise = domains.noise_multiplier(noise_multiplier)

    def spent(one: Accountant, rate: float) -> float:
        run = Phase(rate, noise, count)
        return float(one.epsilons([run], [count], slack, relation)[0])

    def excess(one: Accountant, rarity: float) -> float:
        """Of 1 / q; in [-1, 1], with the sign of ε - target."""
        loss = spent(one, min(max(1 / rarity, LEAST_RATE), 1.0))
        return 1.0 if math.isinf(loss) else (loss - target) / max(loss, target)

    def search(one: Accountant) -> float:
        start = 1 / max(rate_guess(target, noise, count, slack), LEAST_RATE)
        rarity = least_noise(lambda x: excess(one, x), start, PRECISION)
        return max(1 / rarity, LEAST_RATE)

    def keeps(one: Accountant, rate: float) -> bool:
        return spent(one, rate) <= target

    if keeps(chosen, 1.0):
        return 1.0
    if not keeps(chosen, LEAST_RATE):
        raise unreachable(target_epsilon, spent(chosen, LEAST_RATE), "sample rate")
    return confirmed(chosen.searchers(relation), search, keeps)
