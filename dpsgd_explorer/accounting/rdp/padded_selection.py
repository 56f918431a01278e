"""The best of a Poisson number of trials, cut so that a fixed number of them is run.

The run time of a program that selects among K trials reveals K, unless the program
always runs a fixed number M of trials and discards all beyond the first K.  That is
possible only for K up to M.  Let τ = P(K > M).  The selections among min(K, M) and
among K trials differ in an event of probability τ that does not depend on the records.
So if the selection among K trials is (ε, δ')-private, the one among min(K, M) trials is
(ε, δ' + (1 + e^ε) τ)-private.

M is the least number for which the second term takes at most ``TAIL_SHARE`` of δ.
Example: ten trials on average at ε = 2.4 and δ = 1e-5 need 33 trainings.

Source of ε: ``selection``, Theorem 6.  P(K > M) is a regularised incomplete gamma
function: DLMF 8.4.10 with 8.2.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.rdp.curve import RdpCurve
from dpsgd_explorer.accounting.rdp.selection import best_of_trials, checked_mean
from dpsgd_explorer.errors import AccountingError

#: Share of δ for the event K > M.
TAIL_SHARE = 0.01
#: Smallest P(K > M) that a float represents well.
MIN_TAIL = 1e-280
#: Relative round-off of the computed tail, by which it is rounded up.
TAIL_ROUND_OFF = 1e-9


@dataclass(frozen=True)
class PaddedSelection:
    """The price of a selection whose number of trainings is fixed.

    >>> from dpsgd_explorer.accounting.core.phase import Phase
    >>> trial = RdpCurve.of([Phase(0.01, 2.0, 1000)])
    >>> price = padded_selection(trial, mean_trials=10, delta=1e-5)
    >>> price.trainings, round(price.epsilon, 3)
    (32, 1.581)

    Attributes:
        epsilon: Upper bound on ε at ``delta``.
        delta: δ of the whole selection, with the part for K > M.
        mean_trials: E[K].
        trainings: M, the number that is always run.
        tail: P(K > M), rounded up.
        uncut: Divergences of the best of all K trials.
    """

    epsilon: float
    delta: float
    mean_trials: float
    trainings: int
    tail: float
    uncut: RdpCurve = field(repr=False, compare=False)

    @property
    def none(self) -> float:
        """Probability of no trial at all."""
        return math.exp(-self.mean_trials)


def padded_selection(
    trial: RdpCurve, *, mean_trials: float, delta: float
) -> PaddedSelection:
    """Returns the price of the best of a Poisson number of trials, cut at M.

    >>> from dpsgd_explorer.accounting.core.phase import Phase
    >>> trial = RdpCurve.of([Phase(0.01, 2.0, 1000)])
    >>> price = padded_selection(trial, mean_trials=10, delta=1e-5)
    >>> round(trial.epsilon(1e-5), 3), round(price.epsilon, 3), price.trainings
    (0.686, 1.581, 32)

    Args:
        trial: Divergences of one trial.
        mean_trials: E[K], at least 1.
        delta: δ of the whole selection, in (0, 1).

    Raises:
        AccountingError: an argument is outside its domain, or ε of the trials is so
            large that no M is large enough.

    Source: Papernot and Steinke (2022), arXiv:2110.03620v2, Theorem 6.
    """
    whole, mean = domains.delta(delta), checked_mean(mean_trials)
    best = best_of_trials(trial, mean_trials=mean, shape=math.inf)
    epsilon = best.epsilon((1 - TAIL_SHARE) * whole)
    log_allowed = math.log(TAIL_SHARE * whole) - float(np.logaddexp(0, epsilon))
    if log_allowed < math.log(MIN_TAIL):
        raise AccountingError(
            f"the best of {mean:g} trials must cost less, because delta must also "
            f"cover trials that are not run, got epsilon = {epsilon:.4g} at delta = "
            f"{whole:.3g}. Add noise, or use fewer trials.",
            field="mean_trials",
        )
    most = _least_number(mean, math.exp(log_allowed))
    return PaddedSelection(epsilon, whole, mean, most, tail(mean, most), best)


def tail(mean_trials: float, most: int) -> float:
    """Returns P(K > most) of a Poisson number with this mean, rounded up."""
    return float(scipy.special.pdtrc(most, mean_trials)) * (1 + TAIL_ROUND_OFF)


def _least_number(mean: float, allowed: float) -> int:
    """Returns the least M with a tail of at most ``allowed``."""
    low, high = 0, 1
    while tail(mean, high) > allowed:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tail(mean, middle) > allowed else (low, middle)
    return high
