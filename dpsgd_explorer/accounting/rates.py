"""The sample rate for a target: ε rises with it."""

from __future__ import annotations

import math

from dpsgd_explorer.accounting import domains
from dpsgd_explorer.accounting.accountant import Phase
from dpsgd_explorer.accounting.search import first_safe, unreachable
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
    chosen = accountant_for(accountant, neighboring_relation)
    target, slack = domains.target_epsilon(target_epsilon), domains.delta(delta)
    count = domains.steps(steps, least=1)
    noise = domains.noise_multiplier(noise_multiplier)

    def excess(fall: float) -> float:
        """Of -log q; in [-1, 1], with the sign of ε - target."""
        run = Phase(max(math.exp(-fall), LEAST_RATE), noise, count)
        spent = float(chosen.epsilons([run], [count], slack, neighboring_relation)[0])
        return 1.0 if math.isinf(spent) else (spent - target) / max(spent, target)

    if excess(0.0) <= 0:
        return 1.0
    fallen = -math.log(LEAST_RATE)
    if excess(fallen) > 0:
        run = Phase(LEAST_RATE, noise, count)
        least = chosen.epsilons([run], [count], slack, neighboring_relation)[0]
        raise unreachable(target_epsilon, float(least))
    return max(math.exp(-first_safe(excess, 0.0, fallen)), LEAST_RATE)
