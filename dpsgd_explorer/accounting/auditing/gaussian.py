"""Lower bounds on ε for mechanisms whose scores are Gaussian.

Members' scores are N(μ, 1) and others' N(0, 1), up to a monotone map.

Sources: Nasr et al. (2023), arXiv:2302.07956, section 4; Agrawal et al. (2026),
arXiv:2606.12733.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import scipy

from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.gaussian import epsilon_of_mu


def gaussian_dp_epsilon(
    scores: Scores, thresholds: Sequence[float], delta: float, error: float
) -> float:
    """Returns a lower bound on the ε of a Gaussian mechanism.

    At a threshold, μ is at least Φ⁻¹(1 - FPR) - Φ⁻¹(FNR), with upper bounds as rates.

    Args:
        scores: Scores of the canaries.
        thresholds: Chosen before the scores were seen; ``error`` is split over them.
        delta: δ, above 0.
        error: Probability that the bound is above the true ε.
    """
    delta = validation.delta(delta)
    share = validation.share("error", error) / len(thresholds)
    rates = [scores.errors(x).rate_bounds(share) for x in thresholds]
    mu = max(-float(scipy.special.ndtri(p) + scipy.special.ndtri(n)) for p, n in rates)
    return epsilon_of_mu(delta, mu) if mu > 0 else 0.0


def gaussian_pair_epsilon(scores: Scores, delta: float, error: float) -> float:
    """Returns ε of the Gaussians that fit the scores, at the lower end of μ's interval.

    An approximation: the scores must be normal with equal variances.  μ is the
    difference of the means over the pooled standard deviation, less the quantile of
    ``error`` in units of its standard error,

        sqrt(1 / M1 + 1 / M0 + μ² / (2 (M1 + M0 - 2))).

    Args:
        scores: Scores of the canaries.
        delta: δ, above 0.
        error: Probability that the bound is above the true ε.
    """
    delta, error = validation.delta(delta), validation.share("error", error)
    members, others = scores
    free = len(members) + len(others) - 2
    if len(members) == 0 or len(others) == 0 or free < 1:
        return 0.0
    squares = len(members) * members.var() + len(others) * others.var()
    deviation = math.sqrt(squares / free)
    if deviation == 0:
        return 0.0
    mu = float(members.mean() - others.mean()) / deviation
    spread = math.sqrt(1 / len(members) + 1 / len(others) + mu**2 / (2 * free))
    mu += float(scipy.special.ndtri(error)) * spread
    return epsilon_of_mu(delta, mu) if mu > 0 else 0.0
