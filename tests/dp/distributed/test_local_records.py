"""Ranks that have records of their own: each is in each batch with the sample rate."""

import math

import pytest
import torch

from dpsgd_explorer.errors import ConfigError
from tests.dp.distributed import jobs
from tests.dp.distributed.measures import MOST, TOLERANCE, correlation

EVERY = {"batch_size": jobs.RECORDS}
OF_RANKS = {"unlike": [31, 9], "one has none": [jobs.RECORDS, 0]}
#: Batches of about 8 of 40 records, in all.
RATE = jobs.PLAN["batch_size"] / jobs.RECORDS
STEPS = 200


@pytest.mark.parametrize("name", OF_RANKS)
@pytest.mark.parametrize("sharded", [False, True])
def test_batches_of_all_records_train_as_one_process_does(two, name, sharded):
    options = {**EVERY, "physical_batch_size": 8, "of_ranks": OF_RANKS[name]}
    alone, _, epsilon = jobs.trained_locally(**options)
    found = two("trained_locally", sharded=sharded, **options)
    for weights, receipt, own_epsilon in found:
        assert float((weights - alone).abs().max()) <= TOLERANCE
        assert receipt == found[0][1]
        assert "each rank from its own records" in receipt["sampling"]
        assert own_epsilon == epsilon


def excess(joined):
    """Return how far the share of drawn records is from q, in standard errors."""
    share = float(joined.mean())
    return (share - RATE) / math.sqrt(RATE * (1 - RATE) / joined.numel())


def test_each_record_is_in_one_batch_of_each_epoch(two):
    options = {"sampling": "random_allocation", "noise": "seeded", "seed": 5}
    found = two("drawn_locally", of_ranks=[25, 15], steps=50, resumes=True, **options)
    for joined in found:
        epochs = joined.view(10, 5, -1)  # 5 slots for 40 records
        assert (epochs.sum(1) == 1).all()
    first, second = (joined[:, :15] for joined in found)
    assert not torch.equal(first, second)


LONG = pytest.mark.long("long statistics")


@pytest.mark.parametrize(
    ("noise", "resumes"),
    [
        ("seeded", True),
        pytest.param("seeded", False, marks=LONG),
        pytest.param("secure", False, marks=LONG),
        pytest.param("secure", True, marks=LONG),
    ],
)
def test_each_record_joins_independently_with_the_rate(two, noise, resumes):
    seed = {"secure": None, "seeded": 5}[noise]
    options = {"steps": STEPS, "noise": noise, "seed": seed, "resumes": resumes}
    first, second = two("drawn_locally", of_ranks=[20, 20], **options)
    assert abs(excess(first)) < MOST
    assert abs(excess(second)) < MOST
    assert abs(correlation(first, second)) < MOST
    assert abs(correlation(first[1:], second[:-1])) < MOST
    joined = torch.cat([first, second], dim=1)
    counts = joined.sum(1)
    law = jobs.RECORDS * RATE * (1 - RATE)  # of a binomial number of records
    assert abs(float(counts.var()) / law - 1) < MOST * math.sqrt(2 / STEPS)


@pytest.mark.parametrize("resumes", [False, True])
def test_draws_of_one_seed_on_every_rank_are_seen(two, resumes):
    options = {"steps": 50, "bug": "same draws", "resumes": resumes}
    first, second = two("drawn_locally", of_ranks=[20, 20], **options)
    assert correlation(first, second) > MOST


def test_a_record_counts_where_it_is_and_as_often_as_it_is_there(two):
    """Moved to another rank it changes nothing, on both of them it counts twice."""
    every = list(range(jobs.RECORDS))
    bound = jobs.PLAN["max_grad_norm"] * (1 + 1e-5)
    whole, *_ = two("summed_locally", of_ranks=[every[:30], every[30:]])
    moved, *_ = two("summed_locally", of_ranks=[every[:29], every[29:]])
    assert float((moved - whole).norm()) < 1e-4
    left_out, *_ = two("summed_locally", of_ranks=[every[:29], every[30:]])
    own = whole - left_out
    assert 0.1 * bound < float(own.norm()) <= bound
    twice, *_ = two("summed_locally", of_ranks=[every[:30], every[29:]])
    assert float((twice - left_out - 2 * own).norm()) < 1e-4


def test_the_declared_number_of_records_is_that_of_all_ranks(two):
    for error in two("trained_locally", of_ranks=[30, 9]):
        assert isinstance(error, ConfigError)
        assert "of all ranks, 39, got 40" in str(error)


def test_partition_is_a_known_one_and_the_same_everywhere(two):
    for error in two("made", partition="mine"):
        assert isinstance(error, ConfigError)
        assert "strided, local" in str(error)
    for error in two("unlike", what="partition"):
        assert isinstance(error, ConfigError)
        assert "partition must be the same on every rank" in str(error)
