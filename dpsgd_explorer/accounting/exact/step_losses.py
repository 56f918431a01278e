"""The directions of a neighbouring relation, and the steps' privacy losses in each.

A direction is an ordered pair of distributions, (P, Q): *remove* compares the output
with the record to that without it, *add* the other way round.  A replaced record gives
a pair that is its own mirror image: one direction.
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

DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    ADD_OR_REMOVE_ONE: ("remove", "add"),  # the larger ε first, nearly always
    REPLACE_ONE: ("replace",),
}


def step_losses(
    phases: Sequence[Phase], direction: Direction, relation: NeighboringRelation
) -> list[PrivacyLoss]:
    """Return the privacy loss of one step of each phase.

    Args:
        phases: Sample rates and noise multipliers, the latter greater than 0.
        direction: One of the relation's DIRECTIONS.
        relation: What one record may change.
    """
    return [
        GaussianLoss(relation.sensitivity / phase.noise_multiplier)
        if phase.sample_rate == 1
        else SubsampledGaussianLoss(
            phase.sample_rate, phase.noise_multiplier, direction
        )
        for phase in phases
    ]
