"""Accountants by composition theorems: ε of single steps, composed.

A share of δ is spent on the theorem, and the rest is split evenly over the steps.  Each
step is (ε₀, δ₀) private, amplified by sampling (``per_step_epsilon``).  The smallest ε
of all shares is returned.  The shares are fixed.  At each share the bound rises with
sample rate and steps and falls with noise and δ; so does the smallest bound.

k steps that are (ε₀, δ₀) private are (ε', kδ₀ + δ') private together, with

| theorem | ε' | δ' |
|---|---|---|
| basic | k ε₀ | 0 |
| advanced | ε₀ √(2k log(1/δ')) + k ε₀ (e^ε₀ - 1) | any |
| optimal, equal steps | exact ε of k randomized responses | any |
| optimal, unequal steps | Σ ε₀ tanh(ε₀/2) + √(2 Σ ε₀² log(e + √(Σ ε₀²) / δ')) | any |

For unequal steps, k ε₀ and k ε₀² become sums over the steps, by the same proofs.
Optimal composition of unequal steps is #P-hard.  The smaller of two bounds is used: the
last row of the table, or equal steps with the largest ε₀.

A replaced record moves the sum by two clipping bounds.  With sampling, both neighbours
are mixtures with a common third distribution, the output without the record, which is
nearer to either.  Amplification with the doubled sensitivity is therefore a bound.

Source: basic: Dwork, Kenthapadi, McSherry, Mironov and Naor (2006), Theorem 1;
advanced: Dwork, Rothblum and Vadhan (2010), Theorem III.3; optimal: Kairouz, Oh and
Viswanath (2015), arXiv:1311.0776v4, Theorems 3.3 and 3.5; replaced record: Balle,
Barthe and Gaboardi (2018), arXiv:1807.01647v2, Theorem 2.

Notation: S rows of steps, P phases, H shares of δ.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Accountant, Floats, Status
from dpsgd_explorer.accounting.core.phase import StepCounts
from dpsgd_explorer.accounting.core.root_finding import first_safe
from dpsgd_explorer.accounting.theorems.per_step_epsilon import step_epsilons
from dpsgd_explorer.accounting.theorems.randomized_response import composed_epsilons

#: Shares of δ that a theorem may spend.
SHARES = np.concatenate([np.geomspace(1e-4, 0.02, 8), np.arange(0.04, 0.99, 0.02)])
#: Ends of a search for log δ.
MIN_LOG_DELTA, MAX_LOG_DELTA = -700.0, math.log1p(-1e-15)


class CompositionAccountant(Accountant):
    """Splits δ between the steps and a theorem, and returns the best split's ε.

    Attributes:
        shares: Shares of δ that the theorem may spend, [H].
    """

    status: ClassVar[Status] = "bound"
    shares: ClassVar[Floats] = SHARES
    max_rows = 256

    @abstractmethod
    def composed(self, counts: Floats, losses: Floats, deltas: Floats) -> Floats:
        """Returns ε of all steps by the theorem.

        Shapes: counts [S, 1, P], losses [S, H, P], deltas [H] -> [S, H].

        Args:
            counts: Steps of each phase.
            losses: ε₀ of one step of each phase; 0 for a phase without steps.
            deltas: δ' of the theorem.
        """

    def _epsilons(self, run: StepCounts, delta: float) -> Floats:
        counts = run.counts
        done = np.maximum(counts.sum(axis=1), 1.0)[:, None]  # [S, 1]
        step_deltas = (1 - self.shares) * delta / done  # [S, H]
        losses = np.stack(
            [step_epsilons(phase, step_deltas) for phase in run.over_sensitivity()],
            axis=-1,
        )
        losses = np.where(counts[:, None, :] > 0, losses, 0.0)  # [S, H, P]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            total = self.composed(counts[:, None, :], losses, self.shares * delta)
        total[np.isinf(losses).any(axis=-1)] = math.inf
        return np.asarray(total.min(axis=1))

    def _delta(self, run: StepCounts, epsilon: float) -> float:
        def excess(log_delta: float) -> float:
            spent = self._epsilons(run, math.exp(log_delta))[0]
            return 1.0 if math.isinf(spent) else float(spent - epsilon)

        if not run.counts.any():
            return 0.0
        if excess(MAX_LOG_DELTA) > 0:
            return 1.0
        if excess(MIN_LOG_DELTA) <= 0:
            return math.exp(MIN_LOG_DELTA)
        return math.exp(first_safe(excess, MIN_LOG_DELTA, MAX_LOG_DELTA))


class BasicAccountant(CompositionAccountant):
    """Adds up ε and δ of all steps."""

    name = "basic"
    shares: ClassVar[Floats] = np.zeros(1)

    def composed(self, counts: Floats, losses: Floats, deltas: Floats) -> Floats:
        return np.asarray((counts * losses).sum(axis=-1))


class AdvancedAccountant(CompositionAccountant):
    """Applies the theorem of Dwork, Rothblum and Vadhan: ε grows with √T."""

    name = "advanced"

    def composed(self, counts: Floats, losses: Floats, deltas: Floats) -> Floats:
        variance = 2 * (counts * losses**2).sum(axis=-1)  # [S, H]
        mean = (counts * losses * np.expm1(losses)).sum(axis=-1)
        return np.asarray(np.sqrt(variance * -np.log(deltas)) + mean)


class OptimalAccountant(CompositionAccountant):
    """Composes steps as randomized responses with ε₀ each, which are the worst case."""

    name = "optimal"
    shares: ClassVar[Floats] = np.append(0.0, SHARES[8::2])  # 0: basic composition

    def composed(self, counts: Floats, losses: Floats, deltas: Floats) -> Floats:
        steps = np.broadcast_to(counts.sum(axis=-1), losses.shape[:-1])
        largest = composed_epsilons(
            steps, losses.max(axis=-1), np.broadcast_to(deltas, steps.shape)
        )
        return np.fmin(largest, unequal_steps_epsilon(counts, losses, deltas))


def unequal_steps_epsilon(counts: Floats, losses: Floats, deltas: Floats) -> Floats:
    """Returns the closed form for unequal steps, or basic composition if smaller.

    Shapes: counts [..., P], losses [..., P], deltas [...] -> [...].
    """
    squares = (counts * losses**2).sum(axis=-1)
    mean = (counts * losses * np.tanh(losses / 2)).sum(axis=-1)
    logs = np.minimum(-np.log(deltas), np.log(math.e + np.sqrt(squares) / deltas))
    basic = (counts * losses).sum(axis=-1)
    return np.asarray(np.fmin(basic, mean + np.sqrt(2 * squares * logs)))
