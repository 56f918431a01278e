"""The moments accountant, with which DP-SGD was first published.

The log moment of order λ is λ R(1 + λ), with R the Rényi divergence.  As in the source,
λ is an integer up to 32, and the conversion is

    ε = R(α) + log(1/δ) / (α - 1).

Source: Abadi et al. (2016), arXiv:1607.00133v2, Theorem 2 and section 5.

Notation: A orders of the Rényi accountant, S numbers of steps.
"""

from __future__ import annotations

import math

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.rdp.accountant import RdpAccountant
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import ORDERS

#: Largest λ, from section 5 of the source.
MAX_MOMENT = 32
#: Indices of the orders 1 + λ in ORDERS.
INDICES = np.flatnonzero((np.round(ORDERS) == ORDERS) & (ORDERS <= MAX_MOMENT + 1))
MOMENTS = ORDERS[INDICES] - 1  # λ


class MomentsAccountant(RdpAccountant):
    """Adds up the log moments of the steps, as the paper of 2016 does."""

    name = "moments"

    def to_epsilons(self, rdp: Floats, delta: float) -> Floats:
        epsilons = (rdp[:, INDICES] - math.log(delta) / MOMENTS).min(axis=1)
        return np.where(rdp.any(axis=1), epsilons, 0.0)  # 0 after no step

    def to_delta(self, rdp: Floats, epsilon: float) -> float:
        log_delta = float((MOMENTS * (rdp[INDICES] - epsilon)).min())
        return math.exp(min(log_delta, 0.0)) if rdp.any() else 0.0
