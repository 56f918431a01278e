"""A run by random allocation: its epsilon, its order of batches, its resume."""

import copy
import io
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer import dp
from dpsgd_explorer.accounting import Plan, random_allocation_epsilon
from dpsgd_explorer.accounting.random_allocation import random_allocation_interval
from dpsgd_explorer.audit.receipts.verification import verify_receipt
from dpsgd_explorer.dp import schedules
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.nets import attached, data, train

SLOTS, EPOCHS = 5, 3
SIZES = {
    "sampling": "random_allocation",
    "sample_size": 40,
    "batch_size": 9,  # of 40 records in 5 slots: 8 on average
    "epochs": EPOCHS,
    "steps": None,
    "noise_multiplier": 1.0,
}


def started(seed=5, **options):
    """Return (net, optimizer, engine, batches) of a run at its beginning."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    engine, _ = attached(net, optimizer, **SIZES | {"seed": seed} | options)
    return net, optimizer, engine, engine.random_allocation_loader(data())


def secret(**options):
    return started(seed=None, noise="secure", **options)


def advance(run, steps):
    net, optimizer, _, loader = run
    train(net, optimizer, itertools.islice(loader.all_epochs(), steps))


def spent(steps, delta=1 / 80):
    sizes = {"noise_multiplier": 1.0, "slots": SLOTS, "steps": steps, "delta": delta}
    return float(random_allocation_interval(**sizes))


def weights(run):
    return torch.cat([p.detach().flatten() for p in run[0].parameters()])


def test_epsilon_is_that_of_random_allocation():
    run = started()
    for steps in (3, 15):
        advance(run, steps - run[2].steps_done)
        assert run[2].get_epsilon() == pytest.approx(spent(steps), rel=1e-3)
        assert run[2].get_epsilon() >= spent(steps) * (1 - 1e-6)
    whole = random_allocation_epsilon(
        noise_multiplier=1.0, slots=SLOTS, epochs=EPOCHS, delta=1 / 80
    )
    assert run[2].get_epsilon() == pytest.approx(whole, rel=1e-3)
    with pytest.raises(PrivacyError, match="all 15 planned"):
        next(iter(run[3]))


def test_the_sum_is_divided_by_the_mean_size():
    engine = started()[2]
    assert engine.plan.slots == SLOTS
    advanced = engine.receipt()["told"]
    assert advanced["divisor"] == 8.0
    assert engine.sensitivity() == 1.0


def test_parts_of_batches_make_the_same_steps():
    whole, parts = started(), started(physical_batch_size=3)
    train(whole[0], whole[1], whole[3])
    for x, y in parts[3]:
        assert len(x) <= 3
        F.cross_entropy(parts[0](x), y).backward()
        parts[1].step()
        parts[1].zero_grad()
    assert parts[2].steps_done == SLOTS
    assert torch.allclose(weights(whole), weights(parts), atol=1e-6)


@pytest.mark.parametrize("stop", [3, 5])
def test_a_resumed_run_ends_as_an_uninterrupted_one(stop):
    whole, first, second = started(), started(), started(seed=99)
    advance(whole, 15)
    advance(first, stop)
    buffer = io.BytesIO()
    torch.save([part.state_dict() for part in first[:3]], buffer)
    buffer.seek(0)
    states = torch.load(buffer, weights_only=True)
    for part, state in zip(second, states, strict=False):
        part.load_state_dict(state)
    advance(second, 15 - stop)
    assert torch.equal(weights(second), weights(whole))
    assert second[2].receipt() == whole[2].receipt()
    assert second[2].get_epsilon() == whole[2].get_epsilon()


def test_a_secret_epoch_is_counted_whole_after_a_resume():
    first, second = secret(), secret()
    advance(first, 3)
    second[2].load_state_dict(first[2].state_dict())
    assert second[2].steps_done == 5
    assert second[2].get_epsilon() == pytest.approx(spent(5), rel=1e-3)
    advance(second, 10)
    receipt = second[2].receipt()
    assert receipt["lost_steps"] == 2
    assert verify_receipt(receipt).wrong == []


def test_a_secret_epoch_that_ended_is_not_lost():
    first, second = secret(), secret()
    advance(first, 5)
    second[2].load_state_dict(first[2].state_dict())
    assert second[2].steps_done == 5
    advance(second, 10)
    assert second[2].receipt()["lost_steps"] == 0


def test_a_secret_last_epoch_is_counted_up_to_the_plan():
    first, second = (secret(steps=8, epochs=None) for _ in range(2))
    advance(first, 6)
    second[2].load_state_dict(first[2].state_dict())
    assert second[2].steps_done == 8
    assert verify_receipt(second[2].receipt()).wrong == []


def test_lost_steps_are_counted_in_whole_epochs():
    first, second = secret(), secret()
    advance(first, 3)
    state = first[2].state_dict()
    with pytest.raises(ConfigError, match="multiple of 5") as caught:
        second[2].load_state_dict(state, lost_steps=4)
    assert caught.value.field == "lost_steps"
    second[2].load_state_dict(state, lost_steps=5)
    assert second[2].steps_done == 10
    advance(second, 5)
    assert second[2].receipt()["lost_steps"] == 7


def test_steps_that_a_state_does_not_know_of_are_counted_in_whole_epochs():
    run = secret(epochs=10)
    advance(run, 2)
    state = run[2].state_dict()
    done = []
    for _ in range(2):
        advance(run, 1)
        run[2].load_state_dict(state)
        done.append(run[2].steps_done)
    # The epoch of the state, and an epoch for each of the two branches.
    assert done == [10, 15]


def test_a_batch_without_a_step_ends_the_run():
    run = started()
    advance(run, 1)
    next(iter(run[3]))
    run[2].detach()
    run[2].attach(run[1])
    with pytest.raises(PrivacyError, match="every batch of an epoch must make a step"):
        advance(run, 1)


@pytest.mark.parametrize("places", [1, 2, 5])
def test_a_sampler_out_of_place_makes_no_step(places):
    run = started()
    run[2]._state.sampler.position += places
    with pytest.raises(PrivacyError, match="every batch of an epoch must make a step"):
        advance(run, 1)


def test_batches_of_another_law_get_no_epsilon(monkeypatch):
    run = started()
    sampler = run[2]._state.sampler
    draw = sampler.draw

    def with_a_record_twice():
        batch = draw()
        twice = batch.tolist() != [] and sampler.position == 0
        return torch.cat([batch, batch[:1]]) if twice else batch

    monkeypatch.setattr(sampler, "draw", with_a_record_twice)
    advance(run, 5)
    with pytest.raises(PrivacyError, match="40 samples in total"):
        run[2].get_epsilon()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("told", "slots"), 4),
        (("told", "sampling"), "Poisson"),
        (("told", "divisor"), 9.0),
        (("options", "sampling"), "poisson"),
        (("not_private", "batch_sizes", "samples"), 121),
        (("epsilon",), 2.0),
    ],
)
def test_a_receipt_is_recomputed(receipt, path, value):
    assert verify_receipt(receipt).wrong == []
    changed = copy.deepcopy(receipt)
    place = changed
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    assert verify_receipt(changed).wrong


@pytest.fixture(scope="module")
def receipt():
    run = started()
    advance(run, 15)
    return run[2].receipt()


def test_phases_after_an_unfinished_epoch_begin_a_new_one():
    first = started()
    advance(first, 3)
    first[2].detach()
    second, _ = attached(first[0], first[1], **SIZES, after=first[2])
    loader = second.random_allocation_loader(data())
    train(first[0], first[1], itertools.islice(loader, 2))
    assert [phase.steps for phase in second.phases()] == [3, 2]
    assert second.get_epsilon() > spent(5)


def test_a_schedule_changes_the_noise_between_epochs():
    stairs = schedules.Stairs(rate=0.5, every=SLOTS)
    run = started(noise_schedule=stairs)
    advance(run, 15)
    assert [p.noise_multiplier for p in run[2].phases()] == [1.0, 0.5, 0.25]
    assert run[2].get_epsilon() == run[2].plan.epsilon()
    assert verify_receipt(run[2].receipt()).wrong == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"noise_schedule": schedules.Stairs(rate=0.5, every=3)}, "noise_schedule"),
        ({"accounting_mode": "rdp"}, "accountant"),
        ({"audit": 100}, "audit"),
        ({"sample_size": None, "user_ids": list(range(40))}, "sampling"),
    ],
)
def test_what_random_allocation_does_not_cover_is_refused(options, field):
    with pytest.raises(ConfigError) as caught:
        started(**options)
    assert caught.value.field == field


def test_plan_loader_and_sampling_must_be_of_one_kind():
    plan = Plan.create(
        sample_size=40,
        expected_batch_size=8,
        epochs=1,
        noise_multiplier=1.0,
        delta=1e-3,
        sampling="random_allocation",
    )
    with pytest.raises(ConfigError, match="that of the plan"):
        dp.PrivacyEngine(nn.Linear(4, 3), plan=plan)
    engine = dp.PrivacyEngine(nn.Linear(4, 3), plan=plan, sampling="random_allocation")
    with pytest.raises(ConfigError, match="random_allocation_loader"):
        engine.poisson_loader(data())
    poisson = dp.PrivacyEngine(
        nn.Linear(4, 3), batch_size=8, sample_size=40, steps=1, noise_multiplier=1.0
    )
    with pytest.raises(ConfigError, match="must be 'random_allocation'"):
        poisson.random_allocation_loader(data())


def test_make_private_trains_with_each_record_once_per_epoch():
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    arguments = {"batch_size": 8, "epochs": 2, "noise_multiplier": 1.0}
    run = dp.make_private(
        model, optimizer, data(), sampling="random_allocation", **arguments
    )
    for epoch in run.epochs():
        seen = 0
        for x, y in epoch:
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            seen += len(x)
        assert seen == 40
    assert run.epsilon() == run.plan.epsilon()
    with pytest.raises(ConfigError, match="sampling must be"):
        dp.make_private(model, optimizer, data(), sampling="unchecked", **arguments)


def test_an_open_ended_run_goes_on_by_epochs():
    run = started(epochs=None)
    for _ in range(2):
        train(run[0], run[1], run[3])
    assert run[2].steps_done == 10
    assert run[2].get_epsilon() == pytest.approx(spent(10), rel=1e-3)


def test_states_of_poisson_runs_are_as_before():
    poisson = {"sampling": "poisson", "epochs": None, "steps": 7}
    engine, _ = attached(nn.Linear(4, 3), **SIZES | poisson)
    assert "sampling" not in engine.state_dict()["plan"]
    assert "slots" not in engine.receipt()["told"]
