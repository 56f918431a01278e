"""Cyclic Poisson sampling: groups of records, and batches of one group after another.

Seeds are fixed; each comparison would fail once in a million runs with other seeds.
"""

import itertools

import pytest
import torch
from scipy import stats

from dpsgd_explorer.accounting import Plan, banded_strategy
from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.dp.sampling.cyclic import CyclicPoissonSampler
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import ConfigError
from tests.dp.laws import ALARM

SIZE, BATCH, BANDS = 400, 40, 4


def plan(size=SIZE, batch=BATCH, bands=BANDS, steps=40):
    return Plan.create(
        sample_size=size,
        expected_batch_size=batch,
        steps=steps,
        noise_multiplier=1.0,
        delta=1e-6,
        noise_correlation=None if bands is None else banded_strategy(steps, bands),
    )


def sampler(*, secret=False, seed=0, **sizes):
    generator = KeyStream() if secret else torch.Generator().manual_seed(seed)
    return CyclicPoissonSampler(plan(**sizes), generator)


def group_of_each(drawn):
    """Return the group of each record, int64 [N]; raise if a record has none or two."""
    members = drawn.groups()
    assert torch.cat(members).sort().values.tolist() == list(range(drawn.sample_size))
    groups = torch.empty(drawn.sample_size, dtype=torch.int64)
    for group, records in enumerate(members):
        assert records.tolist() == sorted(records.tolist())
        groups[records] = group
    return groups


@pytest.mark.parametrize("seed", range(5))
def test_no_group_changes_when_another_record_is_removed(seed):
    whole = group_of_each(sampler(seed=seed))
    for size in (SIZE - 1, SIZE // 2, BATCH * BANDS):
        fewer = group_of_each(sampler(seed=seed, size=size))
        assert torch.equal(fewer, whole[:size])


@pytest.mark.parametrize("secret", [False, True], ids=["seeded", "secret"])
def test_groups_are_equally_likely_and_independent(secret):
    drawn = sampler(secret=secret, size=200_000)
    groups = group_of_each(drawn)
    assert stats.chisquare(torch.bincount(groups, minlength=BANDS)).pvalue > ALARM
    pairs = torch.bincount(groups[:-1] * BANDS + groups[1:], minlength=BANDS**2)
    assert stats.chisquare(pairs).pvalue > ALARM


@pytest.mark.parametrize("secret", [False, True], ids=["seeded", "secret"])
def test_a_batch_contains_records_of_its_group_only(secret):
    drawn = sampler(secret=secret)
    groups = group_of_each(drawn)
    for step, batch in enumerate(drawn.all_epochs()):
        assert set(groups[batch].tolist()) <= {step % BANDS}
        assert batch.tolist() == sorted(set(batch.tolist()))


@pytest.mark.parametrize("secret", [False, True], ids=["seeded", "secret"])
def test_members_are_drawn_with_the_rate_of_a_group(secret):
    drawn = sampler(secret=secret, steps=4000)
    sizes = torch.tensor([len(group) for group in drawn.groups()])
    batches = list(drawn.all_epochs())
    total = sum(map(len, batches))
    trials = int(sizes.sum()) * 4000 // BANDS
    assert stats.binomtest(total, trials, BANDS * BATCH / SIZE).pvalue > ALARM
    uses = torch.bincount(torch.cat(batches), minlength=SIZE)
    rate, rounds = BANDS * BATCH / SIZE, 4000 // BANDS
    squares = (uses - rounds * rate).square().sum() / (rounds * rate * (1 - rate))
    assert stats.chi2.sf(float(squares), SIZE) > ALARM
    assert stats.chi2.cdf(float(squares), SIZE) > ALARM


def test_groups_of_the_size_of_a_batch_are_used_whole():
    drawn = sampler(batch=SIZE // BANDS)
    for step, batch in enumerate(itertools.islice(drawn, 2 * BANDS)):
        assert torch.equal(batch, drawn.groups()[step % BANDS])


def test_a_group_may_be_empty():
    drawn = sampler(size=8, batch=1, bands=8)
    sizes = {len(group) for group in drawn.groups()}
    assert 0 in sizes
    assert len(list(drawn.all_epochs())) == 40


def test_prefetched_batches_are_the_same():
    plain, ahead = sampler(), sampler()
    expected = list(plain.until(12))
    ahead.rewind()
    epoch = ahead.prefetch_epoch
    got = list(ahead.prefetch(8))
    for _ in range(5):
        ahead.commit(epoch)
    ahead.rewind()
    assert ahead.position == 5
    assert all(map(torch.equal, got, expected))
    assert all(map(torch.equal, ahead.until(12), expected[5:]))


@pytest.mark.parametrize("stop", [0, 3, 8])
def test_a_seeded_state_repeats_groups_and_batches(stop):
    first, second = sampler(), sampler(seed=1)
    list(first.until(stop))
    second.restore(first.state())
    rest = list(first.until(20))
    assert torch.equal(group_of_each(second), group_of_each(first))
    assert all(map(torch.equal, second.until(20), rest))


@pytest.mark.parametrize(("stop", "position"), [(0, 0), (3, 4), (8, 8), (39, 40)])
def test_a_secret_state_begins_a_new_round_with_new_groups(stop, position):
    first, second = sampler(secret=True), sampler(secret=True)
    list(first.until(stop))
    state = first.state()
    assert state["groups"].numel() == state["generator"].numel() == 0
    second.restore(state)
    assert second.position == position
    assert not torch.equal(group_of_each(second), group_of_each(first))


def test_a_round_that_the_plan_cuts_ends_with_the_plan():
    first = sampler(secret=True, steps=10)
    list(first.until(9))
    first.restore(first.state())
    assert first.position == 10


def test_sampler_and_plan_must_fit():
    generator = torch.Generator()
    with pytest.raises(ConfigError, match="must be None for a PoissonSampler"):
        PoissonSampler(plan(), generator)
    with pytest.raises(ConfigError, match="must be a strategy"):
        CyclicPoissonSampler(plan(bands=None), generator)
