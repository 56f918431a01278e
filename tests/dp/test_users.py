"""Users with several records: drawn, clipped and counted as one sample each."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer import dp
from dpsgd_explorer.accounting import Phase, epsilon_interval
from dpsgd_explorer.audit.receipts.verification import verify_receipt
from dpsgd_explorer.dp.sampling.users import Users, parts_of
from dpsgd_explorer.errors import ConfigError, PrivacyError

C = 1.2
ENGINES = ("hooks", "extending", "vmap")
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


def by_hand(model, x, y, counts):
    """Return the clipped sum over users, and how many of them were clipped."""
    total = [torch.zeros_like(p) for p in model.parameters()]
    clipped = start = 0
    for count in counts:
        rows = slice(start, start + count)
        loss = F.mse_loss(model(x[rows]), y[rows])  # the mean over the user's records
        gradients = torch.autograd.grad(loss, [*model.parameters()])
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        clipped += norm > C
        for part, gradient in zip(total, gradients, strict=True):
            part += gradient * min(1.0, C / norm)
        start += count
    return total, clipped


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
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        expected, number = by_hand(before, inputs, targets, counts)
        clipped, drawn = clipped + number, drawn + len(counts)
        for old, new, part in zip(
            before.parameters(), model.parameters(), expected, strict=True
        ):
            torch.testing.assert_close(old - new, part / 4, rtol=1e-10, atol=1e-12)
        assert not most or max(counts, default=0) <= most
    assert 0 < clipped < drawn, "some users must be clipped, and some not"


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
    _, _, run = started(steps=4000, records_per_user=2)
    sampler, users = run.loader.batch_sampler, Users(OWNERS)
    joined, seen = np.zeros(USERS), np.zeros(len(OWNERS))
    for _ in range(4000):
        records = sampler.draw()
        assert len(records.unique()) == len(records)
        joined[users.owners[records].unique()] += 1
        seen[records] += 1
    deviation = 5 * math.sqrt(4000 * 0.25)
    assert np.abs(joined - 2000).max() < deviation
    sizes = np.bincount(users.owners)
    rate = 0.5 * np.minimum(2 / sizes, 1.0)[users.owners]
    assert np.abs(seen - 4000 * rate).max() < deviation


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
        ([[1], [2, 3]] * 12, "a list of other values"),
        ([1.5] * 24, "dtype torch.float32"),
        (torch.ones(24, dtype=torch.bool), "dtype torch.bool"),
        (np.ones((24, 1), dtype=int), r"shape \(24, 1\)"),
        (["a"] * 24, "a list of other values"),
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
        ({"execution": dp.Execution(engine="microbatch")}, "engine"),
        ({"augmentation_multiplicity": 2}, "augmentation_multiplicity"),
        ({"sample_size": 24}, "sample_size"),
        ({"records_per_user": 0}, "records_per_user"),
        ({"records_per_user": 2, "user_ids": None}, "records_per_user"),
        ({"batch_size": 9}, "batch_size"),
        ({"target_delta": 0.13}, "target_delta"),
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


def test_a_user_with_more_records_than_fit_into_a_part_is_refused():
    model, optimizer, run = started(execution=dp.Execution(physical_batch_size=2))
    with pytest.raises(ConfigError, match="physical_batch_size must be at least"):
        train(model, optimizer, run, run.loader.all_epochs())


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
