"""Optimal composition: the best that can be said of steps known only as (ε, δ).

Equal steps compose like randomized response, exactly (``randomized_response``).  For
unequal ones the exact answer is #P-hard; each is then counted as the worst of them, or
the closed form for unequal steps is taken, whichever is less:

    Σ ε (e^ε - 1) / (e^ε + 1) + √(2 Σ ε² log(min(1/δ', e + √(Σ ε²) / δ'))).

Source: Kairouz, Oh and Viswanath (2015), arXiv:1311.0776v4, Theorems 3.3 and 3.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.theorems.by_step import SHARES, ByStepAccountant
from dpsgd_explorer.accounting.theorems.randomized_response import composed_epsilons

RESPONSES = 2.5  # what their composition takes at all shares, as ``phase_work``


class OptimalAccountant(ByStepAccountant):
    """Composes steps like the randomized responses with their ε, the worst case."""

    label = "Optimal composition"
    note = (
        "Never too small, and the least that follows from ε and δ of a step alone: "
        "what is left to the truth is what these two numbers do not say."
    )
    shares: ClassVar[Floats] = np.append(0.0, SHARES[8::2])  # 0: basic composition

    def work(
        self, phases: Sequence[Phase], answers: int, relation: NeighboringRelation
    ) -> float:
        return super().work(phases, answers, relation) + RESPONSES * answers

    def composed(self, counts: Floats, losses: Floats, slack: Floats) -> Floats:
        steps = np.broadcast_to(counts.sum(axis=-1), losses.shape[:-1])
        worst = composed_epsilons(
            steps, losses.max(axis=-1), np.broadcast_to(slack, steps.shape)
        )
        return np.fmin(worst, closed_form(counts, losses, slack))


def closed_form(counts: Floats, losses: Floats, slack: Floats) -> Floats:
    """Return the closed form for steps that may differ.

    Shapes: counts [..., P], losses [..., P], slack [...] -> [...].
    """
    squares = (counts * losses**2).sum(axis=-1)
    drift = (counts * losses * np.tanh(losses / 2)).sum(axis=-1)
    logs = np.minimum(-np.log(slack), np.log(math.e + np.sqrt(squares) / slack))
    added = (counts * losses).sum(axis=-1)
    return np.asarray(np.fmin(added, drift + np.sqrt(2 * squares * logs)))
