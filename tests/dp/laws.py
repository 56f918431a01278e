"""Tests of laws, each with a chance of a false alarm that is known.

Every function returns a p-value: if the law holds, it is below x with chance x.  A test
fails below ``ALARM``, so it fails by chance once in a million runs.
"""

import math

import numpy as np
from scipy import stats

ALARM = 1e-6


def of_variance(values, standard_deviation):
    """Chi-square of the sum of squares of N(0, standard_deviation^2), two-sided."""
    values = np.asarray(values, dtype=np.float64).ravel()
    total = np.square(values / standard_deviation).sum()
    law = stats.chi2(values.size)
    return min(1.0, 2 * min(law.cdf(total), law.sf(total)))


def of_mean(values, standard_deviation):
    """Of the mean of N(0, standard_deviation^2), two-sided."""
    values = np.asarray(values, dtype=np.float64).ravel()
    return 2 * stats.norm.sf(
        abs(values.mean()) * math.sqrt(values.size) / standard_deviation
    )


def of_shape(values, standard_deviation):
    """Kolmogorov and Smirnov's, against N(0, standard_deviation^2)."""
    values = np.asarray(values, dtype=np.float64).ravel()
    return stats.kstest(values, stats.norm(0, standard_deviation).cdf).pvalue


def of_tails(values, standard_deviation, at=4.0):
    """Of the number beyond ``at`` standard deviations, which is binomial."""
    values = np.asarray(values, dtype=np.float64).ravel()
    beyond = int((np.abs(values) > at * standard_deviation).sum())
    chance = 2 * stats.norm.sf(at)
    return stats.binomtest(beyond, values.size, chance).pvalue


def of_correlation(first, second):
    """Of the correlation of independent normal numbers, two-sided."""
    first = np.asarray(first, dtype=np.float64).ravel()
    second = np.asarray(second, dtype=np.float64).ravel()
    r = np.corrcoef(first, second)[0, 1]
    return 2 * stats.norm.sf(abs(r) * math.sqrt(first.size))


def of_inclusion(counts, draws, rate):
    """Chi-square of how often each record was drawn, two-sided.

    Each count is Binomial(draws, rate); a shuffler's do not vary at all.
    """
    counts = np.asarray(counts, dtype=np.float64)
    spread = draws * rate * (1 - rate)
    total = np.square(counts - draws * rate).sum() / spread
    law = stats.chi2(counts.size)
    return min(1.0, 2 * min(law.cdf(total), law.sf(total)))


def of_batch_sizes(sizes, records, rate):
    """Chi-square of the batch sizes' variance N q (1 - q), two-sided."""
    sizes = np.asarray(sizes, dtype=np.float64)
    total = np.square(sizes - records * rate).sum() / (records * rate * (1 - rate))
    law = stats.chi2(sizes.size)
    return min(1.0, 2 * min(law.cdf(total), law.sf(total)))
