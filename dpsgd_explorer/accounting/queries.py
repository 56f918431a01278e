"""The questions that people ask of one run with unchanging settings."""

from __future__ import annotations

from collections.abc import Sequence

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.registry import accountant_for


def epsilon(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = "add_or_remove_one",
) -> float:
    """Return the epsilon of DP-SGD at delta.

    Args:
        sample_rate: Poisson inclusion probability q a step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: Steps done; 0 gives 0.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS.
        neighboring_relation: What one record may change.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    chosen = accountant_for(accountant, neighboring_relation)
    run = Phase(sample_rate, noise_multiplier, steps)
    slack = domains.delta(delta)
    return float(chosen.epsilons([run], [run.steps], slack, neighboring_relation)[0])


def epsilon_curve(
    sample_rate: float,
    noise_multiplier: float,
    delta: float,
    *,
    steps: Sequence[int],
    accountant: str = "exact",
    neighboring_relation: str = "add_or_remove_one",
) -> list[float]:
    """Return epsilon after each number of steps, in the order asked.

    Args and Raises: as ``epsilon``.
    """
    chosen = accountant_for(accountant, neighboring_relation)
    done = [domains.steps(step) for step in steps]
    run = Phase(sample_rate, noise_multiplier, max(done, default=0))
    values = chosen.epsilons([run], done, domains.delta(delta), neighboring_relation)
    return [float(value) for value in values]


def delta(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    epsilon: float,
    accountant: str = "exact",
    neighboring_relation: str = "add_or_remove_one",
) -> float:
    """Return the delta of DP-SGD at epsilon >= 0; 1 without noise, 0 without steps.

    Args and Raises: as ``epsilon``.
    """
    chosen = accountant_for(accountant, neighboring_relation)
    run = Phase(sample_rate, noise_multiplier, steps)
    return chosen.delta([run], domains.epsilon(epsilon), neighboring_relation)
