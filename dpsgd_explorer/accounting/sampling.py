"""How batches are drawn is part of the question, and not every way has an answer.

| sampling | what is compared | who answers |
|---|---|---|
| poisson | one record added or removed, or replaced | every accountant |
| full_batch | the same | every accountant, at sample rate 1 |
| fixed_size | one record replaced | the Rényi bound for subsets of fixed size |
| truncated_poisson | as poisson | the exact accountant, in ``truncated`` |
| shuffled | | nobody: refused |

For m of N records drawn without replacement, q = m/N, and a step whose noise is σ times
the clipping bound, replacing a record moves the sum by up to twice the bound.  With
R(j) = 2j/σ² the divergence of such a Gaussian, for every integer order α >= 2

    (α - 1) R'(α) = log(1 + q² C(α, 2) min(4 (e^R(2) - 1), 2 e^R(2))
                          + sum over j = 3 ... α of 2 q^j C(α, j) e^((j - 1) R(j))).

Source: Wang, Balle and Kasiviswanathan (2019), arXiv:1808.00087v2, Theorem 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from dpsgd_explorer.accounting import domains
from dpsgd_explorer.accounting.accountant import Accountant, Floats, Phase
from dpsgd_explorer.accounting.log_math import log_expm1, log_sum_segments
from dpsgd_explorer.errors import AccountingError

SAMPLINGS = ("poisson", "full_batch", "fixed_size", "truncated_poisson", "shuffled")
ORDERS = np.array([*range(2, 65), *range(72, 257, 8)])
SHUFFLED = (
    "sampling must be drawn afresh for each step, got 'shuffled': no accountant here "
    "covers batches dealt from a shuffled deck, whose ε can be far above that of "
    "Poisson sampling with the same noise (Chua et al. 2024). Sample by Poisson; the "
    "lesson on privacy accounting tells why."
)


def why_not(
    accountant: Accountant, phases: Sequence[Phase], sampling: str, relation: str
) -> str:
    """Return why an accountant says nothing of batches drawn like this, "" if it does.

    Raises:
        AccountingError: there is no such sampling.
    """
    if sampling not in SAMPLINGS:
        rule = f"one of {', '.join(SAMPLINGS)}"
        domains.refuse("sampling", rule, sampling)
    if sampling == "shuffled":
        return SHUFFLED
    if sampling == "fixed_size":
        return (
            "accountant must be 'rdp' for batches of fixed size, by its bound for "
            f"replaced records, got {accountant.label!r}."
        )
    if sampling == "truncated_poisson":
        return (
            "max_batch_size and sample_size must be known for Poisson batches that are "
            "cut. Ask truncated_poisson_epsilon, the exact accountant's answer."
        )
    if sampling == "full_batch" and any(phase.sample_rate < 1 for phase in phases):
        return "sample_rate must be 1 for sampling 'full_batch', got less."
    if relation not in accountant.neighboring_relations:
        return (
            f"neighboring_relation must be one of "
            f"{', '.join(accountant.neighboring_relations)}, got {relation!r}."
        )
    return accountant.why_not(phases)


def fixed_size_epsilon(
    sample_rate: float, noise_multiplier: float, steps: int, delta: float
) -> float:
    """Return ε of steps on batches of fixed size, for one replaced record; a bound.

    Args:
        sample_rate: Batch size over N, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: At least 0.
        delta: In (0, 1).

    Raises:
        AccountingError: an argument is outside its domain.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    slack = domains.delta(delta)
    if run.steps == 0:
        return 0.0
    if run.noise_multiplier == 0:
        return math.inf
    rdp = run.steps * fixed_size_divergences(run.sample_rate, run.noise_multiplier)
    logs = np.log1p(-1 / ORDERS) - (math.log(slack) + np.log(ORDERS)) / (ORDERS - 1)
    return max(float((rdp + logs).min()), 0.0)


def fixed_size_divergences(sample_rate: float, noise_multiplier: float) -> Floats:
    """Return the divergence bound of one step for each of ORDERS, [A]."""
    square = 2 / noise_multiplier**2  # R(j) = square j
    unsampled = ORDERS * square
    j = np.arange(2, ORDERS.max() + 1)
    logs = j * math.log(sample_rate) + (j - 1) * j * square + math.log(2)
    pair = min(
        math.log(4) + float(log_expm1(np.array(2 * square))), 2 * square + math.log(2)
    )
    logs[0] = 2 * math.log(sample_rate) + pair
    lengths = ORDERS - 1
    starts = np.cumsum(lengths) - lengths
    terms = np.concatenate([np.arange(2, order + 1) for order in ORDERS])
    orders = np.repeat(ORDERS, lengths)
    binomials = gammaln(orders + 1) - gammaln(terms + 1) - gammaln(orders - terms + 1)
    excess = log_sum_segments(binomials + logs[terms - 2], starts)
    return np.asarray(np.minimum(np.logaddexp(0.0, excess) / (ORDERS - 1), unsampled))


def check_answerable(
    accountant: Accountant, phases: Sequence[Phase], sampling: str, relation: str
) -> None:
    """Refuse what an accountant says nothing about.

    Raises:
        AccountingError: with the reason.
    """
    if reason := why_not(accountant, phases, sampling, relation):
        raise AccountingError(reason, field=reason.split(" ", 1)[0])
