import itertools
import math

import pytest
import torch

from dpsgd_explorer.training.train_step import norm_counts, norm_edges


def test_edges_are_evenly_spaced_in_the_logarithm_around_the_bound():
    edges = norm_edges(0.5)
    assert len(edges) == 41
    assert (edges[0], edges[20], edges[40]) == pytest.approx((0.005, 0.5, 50.0))
    ratios = [b / a for a, b in itertools.pairwise(edges)]
    assert ratios == pytest.approx([10**0.1] * 40)


def test_counts_equal_a_count_by_hand():
    norms = torch.tensor([0.5, 1.0, 1.5, 2.0, 2.5])
    assert norm_counts(norms, [0.0, 1.0, 2.0, 3.0]) == [2, 2, 1]


def test_the_outer_bins_take_what_lies_beyond():
    norms = torch.tensor([0.0, 1e-9, 1e9])
    counts = norm_counts(norms, norm_edges(1.0))
    assert (counts[0], counts[-1], sum(counts)) == (2, 1, 3)


def test_a_norm_of_exactly_the_bound_counts_as_not_clipped():
    counts = norm_counts(torch.tensor([1.0, 1.0 + 1e-6]), norm_edges(1.0))
    assert (sum(counts[:20]), sum(counts[20:])) == (1, 1)


def test_norms_that_are_not_finite_are_in_no_bin():
    norms = torch.tensor([1.0, math.inf, math.nan])
    assert sum(norm_counts(norms, norm_edges(1.0))) == 1


def test_an_empty_batch_has_empty_bins():
    assert norm_counts(torch.zeros(0), norm_edges(1.0)) == [0] * 40
