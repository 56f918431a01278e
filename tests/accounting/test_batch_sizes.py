"""Sizes of Poisson batches are told from others, and honest ones pass."""

import pytest
from scipy import stats

from dpsgd_explorer.accounting.batch_sizes import (
    MAX_EQUAL_SIZES_ERROR,
    MAX_TOTAL_ERROR,
    are_of_one_size,
    is_likely_total,
)


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.999])
def test_a_total_is_refused_no_more_often_than_it_says(rate):
    run = {"sample_size": 200, "sample_rate": rate}
    totals = range(10 * 200 + 1)
    refused = [x for x in totals if not is_likely_total(x, 10, **run)]
    assert refused
    assert stats.binom(2000, rate).pmf(refused).sum() < MAX_TOTAL_ERROR


def test_ends_of_the_domain_have_one_total():
    assert is_likely_total(0, 0, sample_size=9, sample_rate=0.5)
    assert not is_likely_total(1, 0, sample_size=9, sample_rate=0.5)
    assert is_likely_total(90, 10, sample_size=9, sample_rate=1.0)
    assert not is_likely_total(89, 10, sample_size=9, sample_rate=1.0)
    assert not is_likely_total(91, 10, sample_size=9, sample_rate=0.9)
    assert not is_likely_total(5, 10, sample_size=9, sample_rate=0.0)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_equal_sizes_are_called_unlikely_no_more_often_than_it_says(rate):
    law = stats.binom(30, rate).pmf(range(31))
    run = {"sample_size": 30, "sample_rate": rate}
    for batches in (80, 500):
        fewest = next(k for k in range(batches) if are_of_one_size(k, batches, **run))
        chance = sum(stats.binom(batches, law).sf(fewest - 1))  # a union bound
        assert chance < MAX_EQUAL_SIZES_ERROR
