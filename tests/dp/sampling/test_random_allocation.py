"""Random allocation: each record in one batch of each epoch, which it draws afresh.

Seeds are fixed; each comparison would fail once in a million runs with other seeds.
"""

import pytest
import torch
from scipy import stats

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.dp.sampling.allocation import RandomAllocationSampler
from dpsgd_explorer.errors import ConfigError
from tests.dp.laws import ALARM

SIZE, SLOTS = 40, 5


def plan(size=SIZE, slots=SLOTS, epochs=4, **options):
    return Plan.create(
        **{
            "sample_size": size,
            "expected_batch_size": -(-size // slots),
            "epochs": epochs,
            "noise_multiplier": 1.0,
            "delta": 1e-6,
            "sampling": "random_allocation",
            **options,
        }
    )


def sampler(*, secret=False, seed=0, **sizes):
    generator = KeyStream() if secret else torch.Generator().manual_seed(seed)
    return RandomAllocationSampler(plan(**sizes), generator)


def slots_of(batches):
    """Return the slot of each record, int64 [N]; raise if a record has none or two."""
    records = torch.cat(batches)
    assert records.sort().values.tolist() == list(range(len(records)))
    slots = torch.empty_like(records)
    for slot, batch in enumerate(batches):
        slots[batch] = slot
    return slots


@pytest.fixture(scope="module", params=[False, True], ids=["seeded", "secret"])
def table(request):
    """Slots of 40 records in 2000 epochs, [2000, 40]."""
    drawn = sampler(secret=request.param, epochs=2000)
    return torch.stack([slots_of(list(drawn)) for _ in range(2000)])


def test_slots_are_equally_likely_for_every_record(table):
    counts = torch.stack([(table == slot).sum(0) for slot in range(SLOTS)])
    assert stats.chisquare(counts.sum(1)).pvalue > ALARM
    # Of each record, with a degree of freedom less than slots.
    squares = (counts - 400).square().sum(0) / 400
    assert stats.chi2.sf(float(squares.sum()), SIZE * (SLOTS - 1)) > ALARM


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda t: t[:-1], lambda t: t[1:]),  # epochs
        (lambda t: t[:, :-1], lambda t: t[:, 1:]),  # neighbouring records
        (lambda t: t[:, :20], lambda t: t[:, 20:]),
    ],
    ids=["epochs", "neighbours", "far records"],
)
def test_pairs_of_slots_are_equally_likely(table, first, second):
    pairs = (first(table) * SLOTS + second(table)).flatten()
    counts = torch.bincount(pairs, minlength=SLOTS**2)
    assert stats.chisquare(counts).pvalue > ALARM


def test_batch_sizes_are_binomial(table):
    sizes = (table == 0).sum(1)
    law = stats.binom(SIZE, 1 / SLOTS)
    ends = [law.cdf(3), *law.pmf(range(4, 13)), law.sf(12)]
    seen = torch.bincount(sizes.clamp(3, 13) - 3, minlength=11)
    expected = len(sizes) * torch.tensor(ends)
    assert stats.chisquare(seen.double(), expected).pvalue > ALARM


def test_indices_rise_and_a_batch_may_be_empty():
    drawn = sampler(size=3, slots=3, epochs=60)
    batches = [batch for _ in range(60) for batch in drawn]
    assert all((batch.diff() > 0).all() for batch in batches)
    assert {len(batch) for batch in batches} >= {0, 1, 2}
    assert all(batch.dtype == torch.int64 for batch in batches)


def test_an_iteration_that_was_left_is_completed():
    whole, drawn = sampler(), sampler()
    expected = list(whole)
    head = [next(iter(drawn)) for _ in range(2)]
    assert len(drawn) == 3
    assert all(map(torch.equal, [*head, *drawn], expected))
    assert all(map(torch.equal, drawn, whole))  # the next epoch


@pytest.mark.parametrize("stop", [0, 3, 5, 7, 20])
def test_iteration_goes_on_from_a_state(stop):
    expected = list(sampler().all_epochs())
    first, second = sampler(), sampler(seed=99)
    for _ in range(stop):
        next(first.until(first.steps))
    second.restore(first.state())
    rest = list(second.until(20))
    assert len(rest) == 20 - stop
    assert all(map(torch.equal, rest, expected[stop:]))


def test_a_state_does_not_grow_with_the_records():
    def length(size):
        drawn = sampler(size=size)
        next(iter(drawn))
        return drawn.state()["generator"].numel()

    assert length(40) == length(4000)


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("committed", [0, 2, 5, 6])
def test_prefetched_batches_are_drawn_again_in_their_epoch(secret, committed):
    drawn = sampler(secret=secret)
    drawn.rewind()
    ahead = [batch for batch, _ in zip(drawn.prefetch(20), range(8), strict=False)]
    for _ in range(committed):
        drawn.commit(drawn.prefetch_epoch)
    drawn.rewind()
    batches = [*ahead[:committed], *drawn.until(20)]
    for start in range(0, 20, SLOTS):
        slots_of(batches[start : start + SLOTS])
    if not secret:
        assert all(map(torch.equal, batches, sampler().all_epochs()))


@pytest.mark.parametrize("stop", [0, 3, 5])
def test_a_secret_epoch_that_began_is_not_continued_after_a_resume(stop):
    first, second = sampler(secret=True), sampler(secret=True)
    for _ in range(stop):
        next(first.until(first.steps))
    second.restore(first.state())
    assert second.position == {0: 0, 3: 5, 5: 5}[stop]
    slots_of(list(second))


def test_epochs_of_lost_steps_are_not_drawn_again():
    expected = list(sampler().all_epochs())
    first, second = sampler(), sampler(seed=99)
    next(iter(first))
    second.restore(first.state())
    second.skip(SLOTS)
    assert second.position == 10
    assert all(map(torch.equal, second, expected[10:15]))


def test_a_plan_of_poisson_batches_is_refused():
    with pytest.raises(ConfigError, match="random_allocation"):
        RandomAllocationSampler(plan(sampling="poisson"), torch.Generator())
