"""The name "glw" of other tools, answered by the exact accountant's upper side.

There it stands for Gopi, Lee and Wutschitz (2021), arXiv:2106.02848v3, "Numerical
Composition of Differential Privacy": a discretised privacy loss, composed by Fourier
transform, whose upper bound lies 0.01 to 0.1 above the truth as asked.  The exact
accountant bounds the same quantity from above, nearer and faster, so we answer with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Accountant, Floats, Phase, Status
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.preview import Preview
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant


class GlwAccountant(Accountant):
    """Gives the upper side of the exact accountant."""

    label = "Numerical (GLW)"
    status: ClassVar[Status] = "bound"
    note = (
        "Never too small. Another name for the upper side of the exact accountant, "
        "which bounds what this method bounds, more closely."
    )
    exact = ExactAccountant()

    def searchers(
        self, relation: NeighboringRelation, *, quick: bool = False
    ) -> tuple[Accountant, ...]:
        return self.exact.searchers(relation, quick=quick)

    def work(
        self, phases: Sequence[Phase], answers: int, relation: NeighboringRelation
    ) -> float:
        return self.exact.work(phases, answers, relation)

    def epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> Floats:
        return self.exact.epsilons(phases, steps, delta, relation)

    def preview(
        self,
        run: Phase,
        steps: Sequence[int],
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
        *,
        quick: bool = False,
    ) -> Preview:
        return self.exact.preview(run, steps, delta, relation, quick=quick)

    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> float:
        return self.exact.delta(phases, epsilon, relation)
