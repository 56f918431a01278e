"""The sampler's law, and loaders made of it.

Seeds are fixed; limits are 5 standard deviations: false alarm 6e-7 a comparison, had
the seed been drawn.
"""

import itertools
import math

import pytest
import torch
from scipy import stats
from torch.utils.data import Dataset, TensorDataset

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.sampling.loader import PoissonLoader
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import ConfigError, PrivacyError

LIMIT = 5.0


def plan(sample_size, batch_size, steps=10):
    return Plan.create(
        sample_size=sample_size,
        expected_batch_size=batch_size,
        steps=steps,
        noise_multiplier=1.0,
        delta=1e-6,
        accountant="rdp",
    )


def sampler(sample_size, batch_size, steps=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return PoissonSampler(plan(sample_size, batch_size, steps), generator)


def indicators(sample_size, batch_size, draws):
    """Return [draws, N]: who was drawn."""
    table = torch.zeros(draws, sample_size, dtype=torch.float64)
    for row, indices in zip(
        table, sampler(sample_size, batch_size, draws).all_epochs(), strict=True
    ):
        row[indices] = 1.0
    return table


@pytest.mark.parametrize("batch_size", [1, 3, 10, 19])
def test_each_record_has_its_own_coin(batch_size):
    draws, size = 4000, 20
    q = batch_size / size
    table = indicators(size, batch_size, draws)
    spread = math.sqrt(q * (1 - q))
    means = (table.mean(0) - q) * math.sqrt(draws) / spread
    assert means.abs().max() < LIMIT
    centred = (table - q) / spread
    covariance = centred.T @ centred / math.sqrt(draws)
    pairs = covariance[~torch.eye(size, dtype=torch.bool)]
    assert pairs.abs().max() < LIMIT


def test_batch_sizes_are_binomial():
    draws, size, batch_size = 4000, 50, 5
    sizes = indicators(size, batch_size, draws).sum(1).int()
    law = stats.binom(size, batch_size / size)
    last = 11  # 12 and more have about 3 in 1000
    expected = draws * torch.tensor([*law.pmf(range(last + 1)), law.sf(last)])
    seen = torch.bincount(sizes.clamp(max=last + 1), minlength=last + 2)
    assert stats.chisquare(seen.double(), expected).pvalue > 6e-7


def test_draws_are_independent():
    table = indicators(20, 5, 4000)
    first, second = table[:-1].flatten(), table[1:].flatten()
    correlation = torch.corrcoef(torch.stack([first, second]))[0, 1]
    assert abs(correlation) * math.sqrt(first.numel()) < LIMIT


def test_indices_are_distinct_int64_in_range():
    for indices in sampler(60_000, 4096, steps=20).all_epochs():
        assert indices.dtype == torch.int64
        assert (indices.diff() > 0).all()
        assert indices.min() >= 0
        assert indices.max() < 60_000


@pytest.mark.parametrize("size", [1, 7])
def test_rate_one_draws_everyone(size):
    for indices in sampler(size, size, steps=3).all_epochs():
        assert indices.tolist() == list(range(size))


def test_nobody_may_be_drawn_and_it_is_a_batch_all_the_same():
    batches = list(sampler(20, 1, steps=100).all_epochs())
    assert len(batches) == 100
    assert sum(len(batch) == 0 for batch in batches) > 0


def test_iteration_goes_on_from_a_state():
    whole = list(sampler(100, 10, steps=8))
    first = sampler(100, 10, steps=8)
    assert len(whole) == len(first) == 8
    head = list(itertools.islice(first, 3))
    second = sampler(100, 10, steps=8, seed=99)
    second.restore(first.state())
    assert len(second) == 5
    assert all(map(torch.equal, [*head, *second], whole))
    with pytest.raises(PrivacyError, match="all 8 planned batches"):
        next(iter(second))


class Squares(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        if not 0 <= i < 20:
            raise IndexError(i)
        return torch.tensor([float(i)]), i * i


def columns():
    return torch.arange(20.0)[:, None], torch.arange(20) ** 2


DATA_SETS = {
    "tensors": columns(),
    "data set": TensorDataset(*columns()),
    "m": Squares(),
}


@pytest.mark.parametrize("dataset", DATA_SETS.values(), ids=DATA_SETS)
def test_loaders_yield_the_records_of_each_batch(dataset):
    drawn = []
    loader = PoissonLoader(
        dataset, sampler(20, 1, steps=60), lambda n, *_: drawn.append(n)
    )
    expected = list(sampler(20, 1, steps=60).all_epochs())
    batches = itertools.chain(*[loader] * 3)  # of three epochs
    for (x, y), indices in zip(batches, expected, strict=True):
        assert x.dtype == torch.float32
        assert y.dtype == torch.int64
        assert x.shape == (len(indices), 1)
        assert y.tolist() == (indices**2).tolist()
    assert drawn == [len(indices) for indices in expected]
    assert 0 in drawn


def test_a_loader_uses_the_collate_it_is_given():
    loader = PoissonLoader(
        Squares(), sampler(20, 20, 1), lambda *part: None, collate=len
    )
    assert list(loader) == [20]


def test_a_data_set_of_another_size_is_refused():
    with pytest.raises(ConfigError, match="20, got 21") as caught:
        PoissonLoader(Squares(), sampler(21, 3), lambda *part: None)
    assert caught.value.field == "sample_size"


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ConfigError, match=r"\[2, 3\]"):
        PoissonLoader(
            (torch.zeros(2), torch.zeros(3)), sampler(3, 1), lambda *part: None
        )


def test_an_empty_batch_of_things_that_are_no_tensors_is_refused():
    names = ["a"] * 20
    loader = PoissonLoader(
        type("Names", (Squares,), {"__getitem__": lambda self, i: names[i]})(),
        sampler(20, 1, steps=60),
        lambda *part: None,
    )
    with pytest.raises(PrivacyError, match="collate"):
        list(loader.all_epochs())


def test_a_plan_of_random_allocation_is_rejected():
    """Its accountant would count other batches than the sampler draws."""
    allocated = Plan.create(
        sample_size=100,
        expected_batch_size=10,
        steps=10,
        noise_multiplier=1.0,
        delta=1e-3,
        sampling="random_allocation",
    )
    with pytest.raises(ConfigError, match=r"plan\.sampling"):
        PoissonSampler(allocated, torch.Generator())
