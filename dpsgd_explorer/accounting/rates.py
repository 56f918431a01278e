"""The sample rate for a target: ε rises with it."""

from __future__ import annotations

import math

from dpsgd_explorer.accounting import domains
from dpsgd_explorer.accounting.accountant import Phase
from dpsgd_explorer.accounting.guesses import rate_guess
from dpsgd_explorer.accounting.search import PRECISION, least_noise, unreachable
from dpsgd_explorer.accounting.table import accountant_for

LEAST_RATE = 1e-9


def sample_rate(
    target_epsilon: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = "add_or_remove_one",
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
    chosen = accountant_for(accountant, neighboring_relation).hasty()
    target, slack = domains.target_epsilon(target_epsilon), domains.delta(delta)
    count = domains.steps(steps, least=1)
    noise = domains.noise_multiplier(noise_multiplier)

    def spent(rate: float) -> float:
        run = Phase(rate, noise, count)
        return float(chosen.epsilons([run], [count], slack, neighboring_relation)[0])

    def excess(rarity: float) -> float:
        """Of 1 / q; in [-1, 1], with the sign of ε - target."""
        loss = spent(min(max(1 / rarity, LEAST_RATE), 1.0))
        return 1.0 if math.isinf(loss) else (loss - target) / max(loss, target)

    if excess(1.0) <= 0:
        return 1.0
    if excess(1 / LEAST_RATE) > 0:
        raise unreachable(target_epsilon, spent(LEAST_RATE))
    start = 1 / max(rate_guess(target, noise, count, slack), LEAST_RATE)
    return max(1 / least_noise(excess, start, PRECISION), LEAST_RATE)
