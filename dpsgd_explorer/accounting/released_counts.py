"""The noise of a count that is released next to each step's gradient.

A clipping bound that follows a quantile of the norms needs, each step, the number of
samples within the bound.  Gradient and count are two Gaussian releases on one batch:
with multipliers z_g and z_c they cost as much as one with 1/z^2 = 1/z_g^2 + 1/z_c^2
(Andrew et al., 2021, arXiv:1905.03871, theorem 1).

Worked: z = 2 and z_c = 8 leave z_g = 2 / sqrt(1 - 1/16) = 2.066 for the gradient.
"""

from __future__ import annotations

import math

from dpsgd_explorer.accounting.plan import Plan

#: Change of the count if one record is added or removed: its terms are 1/2 and -1/2.
COUNT_SENSITIVITY = 0.5
#: Expected batch size over the count's noise std: the choice of the source.
BATCH_OVER_NOISE = 20
#: Smallest noise multiplier of the count over the plan's noise multiplier: at this
#: ratio, the gradient's noise multiplier grows by 3%.
MIN_COUNT_NOISE_RATIO = 4.0


def usual_count_noise(plan: Plan) -> float:
    """Returns the count's default noise std over its sensitivity; 0 without privacy."""
    if not plan.is_private:
        return 0.0
    usual = plan.expected_batch_size / BATCH_OVER_NOISE / COUNT_SENSITIVITY
    largest = max(phase.noise_multiplier for phase in plan.phases)
    return max(usual, MIN_COUNT_NOISE_RATIO * largest)


def gradient_noise(planned: float, count: float) -> float:
    """Returns the gradient's noise multiplier next to a count on the same batch.

    Args:
        planned: z, the noise multiplier of the two together; 0 adds no noise.
        count: z_c, the count's noise multiplier; 0 if no count is released.
    """
    if not count or not planned:
        return planned
    return 1 / math.sqrt(planned**-2 - count**-2)


def joint_noise(gradient: float, count: float) -> float:
    """Returns the joint noise multiplier of a gradient and a count on the same batch.

    Args:
        gradient: z_g, the gradient's noise multiplier, above 0.
        count: z_c, the count's noise multiplier; 0 if no count is released.
    """
    return 1 / math.sqrt(gradient**-2 + count**-2) if count else gradient
