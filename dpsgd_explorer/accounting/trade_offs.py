"""The attacker's curve: how many members can be found for a rate of false alarms.

Each (ε, δ) that a run keeps allows a test with false positive rate α at most the true
positive rate

    min(e^ε α + δ, 1 - e^-ε (1 - δ - α), 1),

and the whole curve δ(ε) allows the least of them.  Any finite choice of ε bounds it
from above.

Source: Dong, Roth and Su (2019), arXiv:1905.02383v3, Proposition 2.5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsgd_explorer.accounting import domains
from dpsgd_explorer.accounting.accountant import Accountant, Floats, Phase
from dpsgd_explorer.accounting.exact import ExactAccountant
from dpsgd_explorer.accounting.table import accountant_for

DELTAS = np.concatenate([np.geomspace(1e-9, 0.05, 24), np.arange(0.08, 1.0, 0.06)])
LARGEST = 700.0  # whose exponential is a float
SPREAD = np.linspace(0.0, 1.0, 48) ** 1.5  # of the exact accountant's ε, to the largest


def trade_off(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    *,
    false_positive_rates: Sequence[float],
    accountant: str = "exact",
    neighboring_relation: str = "add_or_remove_one",
) -> list[float]:
    """Return the largest true positive rate at each false positive rate.

    Args:
        sample_rate: Poisson inclusion probability q a step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 hides nothing.
        steps: Steps done; 0 tells nothing.
        false_positive_rates: From 0 to 1.
        accountant: Name in ACCOUNTANTS.
        neighboring_relation: What one record may change.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    chosen = accountant_for(accountant, neighboring_relation)
    run = Phase(sample_rate, noise_multiplier, steps)
    alarms = np.array([_rate(rate) for rate in false_positive_rates])  # [F]
    if run.steps == 0:
        return [float(alarm) for alarm in alarms]
    losses, deltas = _curve(chosen, run, neighboring_relation)  # [E]
    high = np.exp(losses)[:, None] * alarms + deltas[:, None]  # [E, F]
    low = 1 - np.exp(-losses)[:, None] * (1 - deltas[:, None] - alarms)
    return [float(x) for x in np.minimum(np.minimum(high, low).min(axis=0), 1.0)]


def _curve(chosen: Accountant, run: Phase, relation: str) -> tuple[Floats, Floats]:
    """Return pairs of ε and δ that the run keeps."""
    if isinstance(chosen, ExactAccountant):  # its δ at many ε costs little more
        top = float(chosen.epsilons([run], [run.steps], DELTAS[0], relation)[0])
        losses = min(top, LARGEST) * SPREAD
        return losses, chosen.delta_bounds([run], losses.tolist(), relation).upper
    spent = [chosen.epsilons([run], [run.steps], x, relation)[0] for x in DELTAS]
    losses = np.minimum(spent, LARGEST)
    return losses, np.where(np.isinf(spent) | (losses < spent), 1.0, DELTAS)


def _rate(value: object) -> float:
    number = domains.finite("false_positive_rates", value)
    if not 0 <= number <= 1:
        domains.refuse("false_positive_rates", "from 0 to 1", value)
    return number
