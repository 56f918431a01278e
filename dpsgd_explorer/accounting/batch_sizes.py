"""Checks that batch sizes fit the sampling that ε assumes.

An honest run fails a check only with a small probability, which is bounded for all
sizes: by Chernoff's inequality for the total, by a union bound for equal sizes.
"""

from __future__ import annotations

import math

#: Largest probability that the total of true Poisson batches is called unlikely.
MAX_TOTAL_ERROR = 1e-12
#: Largest probability that true Poisson batches are called batches of one size.
MAX_EQUAL_SIZES_ERROR = 1e-6


def is_likely_total(
    samples: int, batches: int, *, sample_size: int, sample_rate: float
) -> bool:
    """Returns True if Poisson sampling can explain the total size of the batches.

    For true Poisson batches the answer is False with a probability of at most 1e-12.
    The total of T batches is Binomial(T N, q).  By Chernoff's inequality, a share a of
    T N has a probability of at most exp(-T N KL(a || q)) on either side.  The bound
    holds for cyclic Poisson sampling too.  With x = q (e^s - 1), a record's uses in j
    rounds of b batches and k further ones have the moment generating function
    (1 + bx)^j (1 + kx), which is at most (1 + x)^(bj + k).

    Args:
        samples: Records of all batches together.
        batches: Number T of batches.
        sample_size: Number N of records in the data set.
        sample_rate: Probability q with which a record joins a batch.

    Example:
        >>> is_likely_total(4600, 50, sample_size=1000, sample_rate=0.1)
        True
        >>> is_likely_total(4000, 50, sample_size=1000, sample_rate=0.1)
        False
    """
    trials, q = batches * sample_size, sample_rate
    if not trials or not 0 < q <= 1 or samples > trials:
        return not trials and not samples
    share = samples / trials
    divergence = share * math.log(share / q) if share else 0.0
    if share < 1:
        rest = 1 - share
        divergence += math.inf if q == 1 else rest * math.log(rest / (1 - q))
    return trials * divergence <= math.log(2 / MAX_TOTAL_ERROR)


def is_likely_sum(
    samples: int,
    batches: int,
    *,
    sample_size: int,
    sample_rate: float,
    slots: int | None = None,
) -> bool:
    """Returns True if the sampling can explain the total size of the batches.

    Without slots this is ``is_likely_total``.  Each whole epoch of random allocation
    contains every record once.  The first j batches of an epoch contain Binomial(N,
    j/t) records, which Chernoff's inequality bounds as for Poisson sampling.

    Args:
        samples: Records of all batches together.
        batches: Number of consecutive batches, from the begin of an epoch.
        sample_size: Number N of records in the data set.
        sample_rate: Probability of a record to be in a given batch.
        slots: Batches t of an epoch of random allocation; None for Poisson sampling.

    Example:
        >>> is_likely_sum(2000, 20, sample_size=1000, sample_rate=0.1, slots=10)
        True
        >>> is_likely_sum(2001, 20, sample_size=1000, sample_rate=0.1, slots=10)
        False
    """
    if slots is None:
        return is_likely_total(
            samples, batches, sample_size=sample_size, sample_rate=sample_rate
        )
    epochs, rest = divmod(batches, slots)
    of_rest, begun = samples - epochs * sample_size, int(rest > 0)
    return of_rest >= 0 and is_likely_total(
        of_rest, begun, sample_size=sample_size, sample_rate=rest / slots
    )


def are_of_one_size(
    equal: int, batches: int, *, sample_size: int, sample_rate: float
) -> bool:
    """Returns True if too many batches have one size for Poisson sampling.

    For true Poisson batches the answer is True with a probability below 1e-6.  The
    sizes of T batches are Binomial(N, q).  The probability that k of them are equal is
    at most (N + 1) C(T, k) p^k, where p is the probability of the most likely size.

    Args:
        equal: Number k of batches of one size.
        batches: Number T of batches.
        sample_size: Number N of records in the data set.
        sample_rate: Probability q with which a record joins a batch.

    Example:
        Ten batches of exactly 20 out of 200 records: 201 * 0.094^10 = 1e-8.

        >>> are_of_one_size(10, 10, sample_size=200, sample_rate=0.1)
        True
    """
    n, q = sample_size, sample_rate
    if not 0 < q < 1 or not equal:
        return False
    mode = min(n, math.floor((n + 1) * q))
    log_mode = _log_choose(n, mode) + mode * math.log(q) + (n - mode) * math.log1p(-q)
    log_bound = math.log(n + 1) + _log_choose(batches, equal) + equal * log_mode
    return log_bound < math.log(MAX_EQUAL_SIZES_ERROR)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
