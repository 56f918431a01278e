"""Users with several records: drawn, clipped and counted as one sample each."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from dpsgd_explorer import dp
from dpsgd_explorer.accounting import Phase, epsilon_interval
from dpsgd_explorer.audit.receipts.verification import verify_receipt
from dpsgd_explorer.dp.sampling.users import Users, parts_of
from dpsgd_explorer.errors import ConfigError, PrivacyError

C = 1.2
ENGINES = ("hooks", "extending", "vmap", "microbatch")
#: Owner of each of 24 records: 8 users with 1 to 6 records, in no order.
OWNERS = [5, 9, 5, 2, 2, 9, 9, 31, 5, 4, 4, 4, 4, 4, 4, 11, 2, 8, 8, 1, 9, 5, 31, 8]
USERS = 8


def data():
    generator = torch.Generator().manual_seed(3)
    shared = {"dtype": torch.float64, "generator": generator}
    return torch.randn(24, 4, **shared), torch.randn(24, 3, **shared)


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def started(model=None, *, user_ids=OWNERS, records=None, **options):
    """Return (model, optimizer, run) of a run over users."""
    model = model or net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    settings = {"batch_size": 4, "steps": 20, "noise_multiplier": 0.0} | options
    settings.setdefault("clipping", dp.Clipping(max_grad_norm=C, fn="Abadi"))
    settings.setdefault("noise", dp.Noise(kind="seeded", seed=5))
    run = dp.make_private(
        model, optimizer, records or data(), user_ids=user_ids, **settings
    )
    return model, optimizer, run


def train(model, optimizer, run, batches):
    for x, y in batches:
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def by_hand(model, x, y, counts, bound=C):
    """Return the clipped sum over users, and how many of them were clipped."""
    total = [torch.zeros_like(p) for p in model.parameters()]
    clipped = start = 0
    for count in counts:
        rows = slice(start, start + count)
        loss = F.mse_loss(model(x[rows]), y[rows])  # the mean over the user's records
        gradients = torch.autograd.grad(loss, [*model.parameters()])
        start += count
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        if not math.isfinite(norm):
            continue
        clipped += norm > bound
        for part, gradient in zip(total, gradients, strict=True):
            part += gradient * min(1.0, bound / norm)
    return total, clipped


def check_step(before, after, clipped_sum, batch_size=4):
    """Assert that a step of learning rate 1 is the clipped sum over the batch size."""
    for old, new, total in zip(
        before.parameters(), after.parameters(), clipped_sum, strict=True
    ):
        torch.testing.assert_close(
            old - new, total / batch_size, rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize("engine", ENGINES)
def test_each_step_is_the_clipped_sum_over_users_of_a_loop(engine, most):
    model, optimizer, run = started(
        execution=dp.Execution(engine=engine), records_per_user=most
    )
    users, (x, _) = Users(OWNERS), data()
    sampler = copy.deepcopy(run.loader.batch_sampler)
    batches, clipped, drawn = list(sampler), 0, 0
    for indices, (inputs, targets) in zip(batches, run.loader, strict=True):
        counts = users.counts_of(indices).tolist()
        torch.testing.assert_close(inputs, x[indices])
        before = copy.deepcopy(model)
        train(model, optimizer, run, [(inputs, targets)])
        expected, number = by_hand(before, inputs, targets, counts)
        clipped, drawn = clipped + number, drawn + len(counts)
        check_step(before, model, expected)
        assert not most or max(counts, default=0) <= most
    assert 0 < clipped < drawn, "some users must be clipped, and some not"


@pytest.mark.parametrize("size", [1, 2000, 16 * 2**20])
def test_a_user_with_a_gradient_that_is_not_finite_adds_nothing(size, monkeypatch):
    """In chunks of one user, of some users, and of all users."""
    monkeypatch.setattr("dpsgd_explorer.dp.backends.torch.CHUNK_BYTES", size)
    x, y = data()
    x[OWNERS.index(8)] = math.nan
    model, optimizer, run = started(records=(x, y), batch_size=USERS, steps=1)
    [(inputs, targets)] = run.loader
    before, sizes = copy.deepcopy(model), np.bincount(OWNERS)
    train(model, optimizer, run, [(inputs, targets)])
    total, _ = by_hand(before, inputs, targets, sizes[sizes > 0])
    check_step(before, model, total, batch_size=USERS)


def test_parts_and_workers_train_as_whole_batches():
    found = []
    for size, workers in ((None, 0), (7, 0), (6, 2)):
        execution = dp.Execution(physical_batch_size=size, num_workers=workers)
        model, optimizer, run = started(execution=execution)
        train(model, optimizer, run, run.loader.all_epochs())
        assert run.engine.steps_done == 20
        found.append(nn.utils.parameters_to_vector(model.parameters()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[2], found[0], rtol=1e-10, atol=1e-12)


def test_each_user_joins_with_the_sample_rate_and_each_record_equally_often():
    """Each frequency is within five standard deviations of its law."""
    _, _, run = started(steps=2000, records_per_user=2)
    sampler, users = run.loader.batch_sampler, Users(OWNERS)
    joined, seen = np.zeros(USERS), np.zeros(len(OWNERS))
    for _ in range(2000):
        records = sampler.draw()
        assert len(records.unique()) == len(records)
        joined[users.owners[records].unique()] += 1
        seen[records] += 1
    deviation = 5 * math.sqrt(2000 * 0.25)
    assert np.abs(joined - 1000).max() < deviation
    sizes = np.bincount(users.owners)
    rate = 0.5 * np.minimum(2 / sizes, 1.0)[users.owners]
    assert np.abs(seen - 2000 * rate).max() < deviation


def test_plan_epsilon_and_receipt_are_those_of_users():
    model, optimizer, run = started(noise_multiplier=1.5, records_per_user=3)
    assert (run.plan.sample_size, run.plan.sample_rate) == (USERS, 0.5)
    assert run.plan.delta == 1 / (2 * USERS)
    train(model, optimizer, run, run.loader.all_epochs())
    phases = [Phase(0.5, 1.5, 20)]
    assert run.epsilon(1e-3) == epsilon_interval(phases, 1e-3).value
    receipt = run.receipt()
    assert receipt["told"]["sample_size"] == USERS
    assert receipt["options"]["unit"] == "user"
    assert receipt["options"]["records_per_user"] == 3
    assert receipt["not_private"]["batch_sizes"]["largest"] <= USERS
    assert not verify_receipt(receipt).wrong
    text = dp.receipt_text(receipt)
    assert f"unit: user ({USERS} users), 3 records each" in text
    assert "of users" in repr(run)


def test_a_resumed_run_has_the_bits_of_one_that_went_on():
    whole, optimizer, run = started(noise_multiplier=1.0, records_per_user=2)
    train(whole, optimizer, run, run.loader.all_epochs())
    model, optimizer, first = started(noise_multiplier=1.0, records_per_user=2)
    for _ in range(3):
        train(model, optimizer, first, first.loader)
    state = copy.deepcopy(first.state_dict())
    again, optimizer, second = started(noise_multiplier=1.0, records_per_user=2)
    second.load_state_dict(state)
    train(again, optimizer, second, second.loader.all_epochs())
    for mine, other in zip(again.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, other)
    _, _, others = started(user_ids=OWNERS[::-1], noise_multiplier=1.0,
                           records_per_user=2)  # fmt: skip
    with pytest.raises(ConfigError, match="the saved users must be this engine's"):
        others.load_state_dict(state)


def test_canaries_audit_a_run_over_users():
    model, optimizer, run = started(noise_multiplier=1.0, audit=dp.Audit(canaries=200))
    train(model, optimizer, run, run.loader.all_epochs())
    assert 0 <= run.audit(1e-3).epsilon_lower <= run.epsilon(1e-3) + 2


@pytest.mark.parametrize(
    ("ids", "got"),
    [
        ([[1, 2]] * 24, r"shape \(24, 2\)"),
        ([[1], [2, 3]] * 12, "several shapes"),
        ([1.0, math.nan] * 12, "dtype float64"),
        ([1, None] * 12, "dtype object"),
        (torch.ones(24, dtype=torch.bool), "dtype bool"),
        (np.ones((24, 1), dtype=int), r"shape \(24, 1\)"),
        (["a"] * 24, "dtype <U1"),
        ([-1, 3] * 12, "-1, which often marks a missing owner"),
        (np.ma.masked_equal(OWNERS, 31), "masked values"),
        ({5: 1}, r"a dict of shape \(\)"),
        ([], "none"),
        (list(range(23)), "one owner for each of the 24 records"),
    ],
)
def test_a_record_without_one_owner_is_refused(ids, got):
    with pytest.raises(ConfigError, match=f"user_ids must .*{got}") as caught:
        started(user_ids=ids)
    assert caught.value.field == "user_ids"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"augmentation_multiplicity": 2}, "augmentation_multiplicity"),
        ({"sample_size": 24}, "sample_size"),
        ({"records_per_user": 0}, "records_per_user"),
        ({"records_per_user": 2, "user_ids": None}, "records_per_user"),
        ({"batch_size": 9}, "batch_size"),
        ({"target_delta": 0.13}, "target_delta"),
        ({"execution": dp.Execution(physical_batch_size=5)}, "physical_batch_size"),
        ({"execution": dp.Execution(partition="local")}, "partition"),
    ],
)
def test_settings_that_contradict_users_are_refused(options, field):
    with pytest.raises(ConfigError) as caught:
        started(**options)
    assert caught.value.field == field


def test_sampling_that_is_not_checked_is_refused():
    with pytest.raises(ConfigError, match="sampling must be 'poisson' with user_ids"):
        dp.PrivacyEngine(net(), batch_size=4, user_ids=OWNERS, noise_multiplier=1.0,
                         sampling="unchecked")  # fmt: skip


def test_a_part_size_that_is_set_later_must_also_hold_each_user():
    _, _, run = started()
    run.loader.physical_batch_size = 5
    with pytest.raises(ConfigError, match="physical_batch_size must be at least"):
        next(iter(run.loader))
    assert run.loader.batch_sampler.position == 0


def padded(items):
    """Return a batch of sequences of several lengths, in the order of the items."""
    rows, targets = zip(*items, strict=True)
    return pad_sequence(rows, batch_first=True), torch.stack(targets)


def longest_first(items):
    return padded(sorted(items, key=lambda item: -len(item[0])))


def test_a_collate_function_that_sorts_is_refused():
    x, y = data()
    items = [(row[: 1 + i % 4], y[i]) for i, row in enumerate(x)]
    for _ in range(2):  # items are in any order
        with pytest.raises(ConfigError, match="collate must leave the items") as caught:
            started(records=items, collate=longest_first)
        assert caught.value.field == "collate"
        items.reverse()
    _, _, run = started(records=items, collate=padded)
    inputs, targets = next(iter(run.loader))
    assert len(inputs) == len(targets)


def test_public_rows_are_added_to_the_step_of_users():
    clipping = dp.Clipping(max_grad_norm=1e3, fn="Abadi")  # clips no user
    model, optimizer, run = started(clipping=clipping, steps=3)
    users, (x, y) = Users(OWNERS), data()
    batches = list(copy.deepcopy(run.loader.batch_sampler).all_epochs())
    for indices, (inputs, targets) in zip(
        batches, run.loader.all_epochs(), strict=True
    ):
        before = copy.deepcopy(model)
        with run.engine.public():
            F.mse_loss(model(x), y).backward()
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        weights = [*before.parameters()]
        public = torch.autograd.grad(F.mse_loss(before(x), y), weights)
        counts = users.counts_of(indices).tolist()
        private, _ = by_hand(before, inputs, targets, counts, bound=1e3)
        both = [total + 4 * mean for total, mean in zip(private, public, strict=True)]
        check_step(before, model, both)


def test_a_phase_over_records_cannot_follow_one_over_users():
    model, _, run = started(noise_multiplier=1.0)
    run.detach()
    with pytest.raises(ConfigError, match="after must be an engine with the same"):
        started(model, user_ids=None, noise_multiplier=1.0, after=run)


def test_a_backward_over_some_of_the_rows_is_refused():
    model, _, run = started()
    x, y = next(batch for batch in run.loader if len(batch[0]) > 1)
    with pytest.raises(PrivacyError, match="one whole part of the loader's batch"):
        F.mse_loss(model(x[:-1]), y[:-1]).backward()


def test_rows_that_go_through_twice_are_refused():
    model, optimizer, run = started()
    x, y = next(batch for batch in run.loader if len(batch[0]))
    for _ in range(2):
        F.mse_loss(model(x), y).backward()
    with pytest.raises(PrivacyError, match="exactly one batch of the engine's loader"):
        optimizer.step()


def test_an_engine_takes_owners_as_its_loader_does():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = dp.PrivacyEngine(
        model, batch_size=4, user_ids=np.array(OWNERS), steps=3, noise_multiplier=1.0
    )
    engine.attach(optimizer)
    for x, y in engine.poisson_loader(data()):
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert engine.plan.sample_size == USERS
    assert engine.steps_done == 2


def test_parts_hold_whole_users():
    counts = torch.tensor([3, 1, 4, 2, 2, 9])
    spans = [(part.start, part.stop) for part in parts_of(counts, 5)]
    assert spans == [(0, 2), (2, 3), (3, 5), (5, 6)]
    assert [(part.start, part.stop) for part in parts_of(counts[:0], 5)] == [(0, 0)]
