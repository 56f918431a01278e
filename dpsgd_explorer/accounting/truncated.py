"""Poisson batches that are cut to a largest size: accelerators want fixed shapes.

A batch is drawn by Poisson sampling; of more than B records, B stay, chosen at random.
With Ψ = P(Binomial(N, q) > B), T steps differ from those without a cap with probability
at most TΨ, whatever the data set.  So the curves differ by little, either way:

    |δ_B(ε) - δ(ε)| <= TΨ (1 + e^ε).

At a cap some eight standard deviations above the expected batch, nothing is lost.

Source: Chua et al. (2024), "Scalable DP-SGD: Shuffling vs. Poisson Subsampling",
arXiv:2411.04205, on truncated batches.  Differs: the same bound from below as well.
"""

from __future__ import annotations

import math

from scipy.special import betainc

from dpsgd_explorer.accounting import domains
from dpsgd_explorer.accounting.accountant import Phase
from dpsgd_explorer.accounting.exact import Bounds, ExactAccountant
from dpsgd_explorer.accounting.sides import RELATION, Sides, two_sided
from dpsgd_explorer.errors import AccountingError

GENEROUS = 1 + 1e-9  # by which a loss is raised until it pays for itself
TAIL_ERROR = 1e-7  # of a binomial tail, relative: 80 times the largest that was seen
LEAST_TAIL = 1e-300  # below which a tail is no normal float
LARGEST = 700.0  # whose exponential is a float
MOST_RECORDS = 10**12
ROUNDS = 60


def truncated_poisson_epsilon(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    *,
    sample_size: int,
    max_batch_size: int,
    neighboring_relation: str = RELATION,
) -> Sides:
    """Return ε of steps whose Poisson batches are cut, from below and from above.

    Args:
        sample_rate: Poisson inclusion probability q a step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: At least 0.
        delta: In (0, 1).
        sample_size: Records N of the larger of two neighbouring data sets.
        max_batch_size: Records B that a batch may hold.
        neighboring_relation: What one record may change.

    Raises:
        AccountingError: an argument is outside its domain, or so small a cap is
            exceeded too often for any ε at this delta.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    slack = domains.delta(delta)
    size = domains.whole("sample_size", sample_size, 1, MOST_RECORDS)
    cap = domains.whole("max_batch_size", max_batch_size, 1, MOST_RECORDS)
    exact = ExactAccountant()
    if run.steps == 0 or run.noise_multiplier == 0:
        return two_sided(exact.bounds([run], [run.steps], slack)).last
    excess = run.steps * binomial_tail(size, run.sample_rate, cap)

    def epsilons(loss: float, side: int) -> Bounds:
        """Return ε at the delta that is left, or that is added, at a loss."""
        moved = slack - side * excess * (1 + math.exp(min(loss, LARGEST)))
        if moved <= 0:
            raise AccountingError(
                f"max_batch_size must be exceeded more rarely for delta = {delta!r}, "
                f"got {max_batch_size!r}, which {run.steps} steps exceed with a "
                f"probability of up to {min(excess, 1.0):.2g}. Raise max_batch_size.",
                field="max_batch_size",
            )
        capped = min(moved, 1 - 1e-12)
        return exact.bounds([run], [run.steps], capped, neighboring_relation)

    upper = float(epsilons(0.0, 1).upper[0])
    for _ in range(ROUNDS):  # rises to where the loss pays for itself
        following = float(epsilons(upper * GENEROUS, 1).upper[0])
        if following <= upper * GENEROUS:
            upper = upper * GENEROUS
            break
        upper = following
    else:
        raise AccountingError(
            f"max_batch_size must leave a part of delta = {delta!r}, got "
            f"{max_batch_size!r}. Raise max_batch_size.",
            field="max_batch_size",
        )
    low = epsilons(upper, -1).lower  # more is added at a larger loss
    return two_sided(Bounds(low, low * 0 + upper)).last


def binomial_tail(size: int, rate: float, cap: int) -> float:
    """Return P(Binomial(size, rate) > cap), rounded up, for up to MOST_RECORDS.

    An incomplete beta function of real arguments, P(N > B) = I_q(B + 1, N - B): the
    binomial functions of scipy take 32-bit integers, beyond which they give NaN.
    """
    if cap >= size:
        return 0.0
    tail = float(betainc(cap + 1.0, float(size - cap), rate))
    if not 0 <= tail <= 1:
        raise ArithmeticError(f"P(Binomial({size}, {rate}) > {cap}) came out as {tail}")
    return min(tail * (1 + TAIL_ERROR) + LEAST_TAIL, 1.0)
