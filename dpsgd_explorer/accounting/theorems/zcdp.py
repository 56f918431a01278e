"""Zero-concentrated differential privacy: one number ρ that adds up.

A Gaussian step has ρ = 1 / 2σ², and R(α) <= αρ for every order α > 1; σ is the noise
std over the sensitivity, which is twice as large for a replaced record.  ε is the least

    αρ + log(1 - 1/α) - log(αδ) / (α - 1)

over all orders, attained where ρ (α - 1)² = log(1/αδ).  Sampling does not reduce a ρ
that holds for all α, so sampled steps are rejected.

Source: Bun and Steinke (2016), arXiv:1605.02065v1, Propositions 1.3 and 1.6;
conversion: Canonne, Kamath and Steinke (2020), arXiv:2004.00010v4, Proposition 12.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Accountant, Floats, Status
from dpsgd_explorer.accounting.core.phase import Phase, StepCounts
from dpsgd_explorer.errors import AccountingError

#: Bisection steps for α - 1.
HALVINGS = 80
#: Largest α - 1 of a search for δ: its square is a float, and any order gives a bound.
MAX_ORDER = 1e150


class ZcdpAccountant(Accountant):
    """Adds up ρ of steps on all records, and converts them at the best order."""

    name = "zcdp"
    status: ClassVar[Status] = "bound"

    def why_not(self, phases: Sequence[Phase]) -> str:
        sampled = [phase.sample_rate for phase in phases if phase.sample_rate < 1]
        if reason := super().why_not(phases):
            return reason
        if not sampled:
            return ""
        return (
            "accountant 'zcdp' must get steps on all records (sample rate 1), got "
            f"{sampled[0]!r}: zCDP is not amplified by sampling. Choose 'exact' or "
            "'rdp'."
        )

    def _epsilons(self, run: StepCounts, delta: float) -> Floats:
        return improved_epsilon(self._rho(run), delta)

    def _delta(self, run: StepCounts, epsilon: float) -> float:
        return improved_delta(float(self._rho(run)[0]), epsilon)

    def _rho(self, run: StepCounts) -> Floats:
        if reason := self.why_not(run.phases):
            raise AccountingError(reason, field="accountant")
        noise = np.array([phase.noise_multiplier for phase in run.over_sensitivity()])
        with np.errstate(divide="ignore", invalid="ignore"):
            rhos = noise**-2.0 / 2
            return np.asarray(
                np.where(run.counts > 0, run.counts * rhos, 0.0).sum(axis=1)
            )


def improved_epsilon(rho: Floats, delta: float) -> Floats:
    """Returns ε at delta of each ρ by the conversion, [S] -> [S]."""
    inside = (rho > 0) & np.isfinite(rho)
    finite = rho[inside]
    low, high = np.zeros_like(finite), np.sqrt(-math.log(delta) / finite)  # α - 1
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        is_left = finite * middle**2 + np.log1p(middle) + math.log(delta) < 0
        low, high = np.where(is_left, middle, low), np.where(is_left, high, middle)
    order = 1 + high
    values = np.where(np.isinf(rho), math.inf, 0.0)
    least = order * finite + np.log(high / order) - np.log(order * delta) / high
    values[inside] = np.maximum(least, 0.0)
    return values


def improved_delta(rho: float, epsilon: float) -> float:
    """Returns δ of ρ at ε >= 0: its log is (α - 1)(αρ - ε + log(1 - 1/α)) - log α."""
    if rho == 0 or math.isinf(rho):
        return float(rho > 0)
    low, high = 0.0, min(2.0 + epsilon / rho + 1 / rho, MAX_ORDER)  # α - 1
    for _ in range(2 * HALVINGS):
        middle = 0.5 * (low + high)
        slope = (2 * middle + 1) * rho - epsilon + math.log(middle / (1 + middle))
        low, high = (middle, high) if slope < 0 else (low, middle)
    order = 1 + high
    log = high * (order * rho - epsilon + math.log(high / order)) - math.log(order)
    return math.exp(min(log, 0.0))
