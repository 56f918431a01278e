"""Tails of the binomial law.

``scipy.stats`` has the same to the bit, and takes 0.7 s to import.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from dpsgd_explorer.accounting.core.intervals import Floats


def at_least(
    count: npt.ArrayLike, trials: int, rate: float | Floats
) -> npt.NDArray[np.float64]:
    """Return the probability of ``count`` successes or more, by the beta law.

    Args:
        count: Whole numbers, any; broadcast with the rates.
        trials: Independent trials.
        rate: Success probability of each.

    Source: Abramowitz and Stegun (1964), 26.5.24.
    """
    count = np.asarray(count, dtype=np.float64)
    inside = np.clip(count, 1, max(1, trials))
    tail = scipy.special.betainc(inside, trials - inside + 1, rate)
    return np.where(count <= 0, 1.0, np.where(count > trials, 0.0, tail))
