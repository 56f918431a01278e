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

#: How far the count moves when a record comes or goes, with terms of 1/2 and -1/2.
COUNT_SENSITIVITY = 0.5
#: Expected batch size over the count's noise std: the choice of the source.
BATCH_OVER_NOISE = 20
#: Count's noise multiplier over the plan's, at least: the gradient's grows by 3 %.
MIN_COUNT_NOISE = 4.0


def usual_count_noise(plan: Plan) -> float:
    """Return the count's noise std over its sensitivity; 0 without privacy."""
    if not plan.is_private:
        return 0.0
    usual = plan.expected_batch_size / BATCH_OVER_NOISE / COUNT_SENSITIVITY
    largest = max(phase.noise_multiplier for phase in plan.phases)
    return max(usual, MIN_COUNT_NOISE * largest)


def gradient_noise(planned: float, count: float) -> float:
    """Return the gradient's noise multiplier, given that of a count on the same batch.

    Args:
        planned: z, the noise multiplier of the two together; 0 adds no noise.
        count: z_c; 0 if no count is released.
    """
    if not count or not planned:
        return planned
    return 1 / math.sqrt(planned**-2 - count**-2)


def joint_noise(gradient: float, count: float) -> float:
    """Return the noise multiplier of a gradient and a count on the same batch together.

    Args:
        gradient: z_g, above 0.
        count: z_c; 0 if no count is released.
    """
    return 1 / math.sqrt(gradient**-2 + count**-2) if count else gradient
