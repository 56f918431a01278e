"""The directions of a neighbouring relation, and the steps' privacy losses in each.

A direction is an ordered pair (P, Q) of distributions of the output.  In *remove*, P is
the output with the record and Q the output without it; in *add*, they are exchanged.  A
replaced record gives a pair that is its own mirror image: one direction.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.exact.privacy_loss import (
    Direction,
    GaussianLoss,
    PrivacyLoss,
)
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss

#: Directions of each neighbouring relation.
DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    ADD_OR_REMOVE_ONE: ("remove", "add"),  # the larger ε first, nearly always
    REPLACE_ONE: ("replace",),
}


def step_losses(
    phases: Sequence[Phase], direction: Direction, relation: NeighboringRelation
) -> list[PrivacyLoss]:
    """Returns the privacy loss of one step of each phase.

    Args:
        phases: Sample rates and noise multipliers, the latter greater than 0.
        direction: One of the relation's DIRECTIONS.
        relation: The difference between neighbouring data sets.
    """
    return [
        GaussianLoss(relation.sensitivity / phase.noise_multiplier)
        if phase.sample_rate == 1
        else SubsampledGaussianLoss(
            phase.sample_rate, phase.noise_multiplier, direction
        )
        for phase in phases
    ]
