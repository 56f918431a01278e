"""The privacy losses of the steps of a run, one per phase."""

from __future__ import annotations

from collections.abc import Sequence

from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.exact.privacy_loss import (
    Direction,
    GaussianLoss,
    PrivacyLoss,
)
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss


def step_losses(
    phases: Sequence[Phase], direction: Direction, relation: NeighboringRelation
) -> list[PrivacyLoss]:
    """Return the privacy loss of one step of each phase; each has noise.

    Args:
        phases: Sample rates and noise multipliers, over the clipping bound.
        direction: One of the relation's ``DIRECTIONS``.
        relation: What one record may change.  A replaced record moves the sum of a
            step on all records by two clipping bounds.
    """
    return [
        GaussianLoss(relation.sensitivity / phase.noise_multiplier)
        if phase.sample_rate == 1
        else SubsampledGaussianLoss(
            phase.sample_rate, phase.noise_multiplier, direction
        )
        for phase in phases
    ]
