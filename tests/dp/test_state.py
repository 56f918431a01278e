"""A run that was stopped goes on bit for bit."""

import io
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.nets import POISSON, attached, data, train

STEPS = 7


def started(seed=5, **options):
    """Return (net, optimizer, engine, batches) of a run at its beginning."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    given = POISSON | {"steps": STEPS, "seed": seed} | options
    engine, _ = attached(net, optimizer, **given)
    return net, optimizer, engine, engine.poisson_loader(data()).all_epochs()


def advance(run, steps=STEPS):
    net, optimizer, _, batches = run
    train(net, optimizer, itertools.islice(batches, steps))


def saved(run):
    net, optimizer, engine, _ = run
    buffer = io.BytesIO()
    torch.save([net.state_dict(), optimizer.state_dict(), engine.state_dict()], buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@pytest.mark.parametrize("engine", CHOICES["engine"])
@pytest.mark.parametrize("stop", [1, 4, STEPS])
def test_a_resumed_run_ends_as_an_uninterrupted_one(stop, engine):
    whole = started(engine=engine)
    advance(whole)
    first = started(engine=engine)
    advance(first, stop)
    second = started(engine=engine, seed=99)
    for part, state in zip(second, saved(first), strict=False):
        part.load_state_dict(state)
    advance(second, STEPS - stop)
    for own, other in zip(second[0].parameters(), whole[0].parameters(), strict=True):
        assert torch.equal(own, other)
    assert second[2].receipt() == whole[2].receipt()
    assert second[2].get_epsilon() == whole[2].get_epsilon()
    assert second[2].steps_done == STEPS


def test_noise_that_was_used_does_not_come_back():
    first = started()
    advance(first, 3)
    used = first[0][0].weight.clone()
    second = started()
    second[2].load_state_dict(saved(first)[2])
    advance(second, 1)
    third = started()
    advance(third, 1)
    assert not torch.equal(second[0][0].weight, third[0][0].weight)
    assert not torch.equal(second[0][0].weight, used)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"noise_multiplier": 0.5}, "plan"),
        ({"batch_size": 9}, "plan"),
        ({"max_grad_norm": 2.0}, "options"),
        ({"clipping_fn": "Abadi"}, "options"),
    ],
)
def test_the_state_of_another_run_is_refused(options, field):
    state = started()[2].state_dict()
    with pytest.raises(ConfigError, match=f"saved {field}"):
        started(**options)[2].load_state_dict(state)


def test_a_state_of_another_version_is_refused():
    engine = started()[2]
    with pytest.raises(ConfigError, match="version"):
        engine.load_state_dict({**engine.state_dict(), "version": 0})


@pytest.mark.parametrize("part", ["noise", "sampler", "ledger", "bound"])
@pytest.mark.parametrize("is_missing", [True, False])
def test_a_state_without_a_part_is_refused(part, is_missing):
    state = started()[2].state_dict() | {part: None}
    if is_missing:
        del state[part]
    with pytest.raises(ConfigError, match="unchanged result of state_dict") as caught:
        started()[2].load_state_dict(state)
    assert caught.value.field == "state"


def test_norm_methods_of_a_state_of_an_earlier_release_are_ignored():
    first, second = started(), started()
    advance(first, 3)
    state = saved(first)
    state[2]["norm_methods"] = {"Linear; weight bias; 4 float32": "instantiate"}
    for part, own in zip(second, state, strict=False):
        part.load_state_dict(own)
    for run in (first, second):
        advance(run, 1)
    for own, other in zip(second[0].parameters(), first[0].parameters(), strict=True):
        assert torch.equal(own, other)


@pytest.mark.parametrize("computed", [False, True])
def test_nothing_is_saved_between_draw_and_step(computed):
    net, _, engine, batches = started()
    x, y = next(batches)
    if computed:
        F.cross_entropy(net(x), y).backward()
    with pytest.raises(PrivacyError, match="after step"):
        engine.state_dict()


def test_the_state_does_not_change_with_the_engine():
    run = started()
    advance(run, 2)
    state = run[2].state_dict()
    kept = state["noise"].clone(), state["sampler"]["generator"].clone()
    advance(run, 2)
    assert torch.equal(state["noise"], kept[0])
    assert torch.equal(state["sampler"]["generator"], kept[1])


def test_steps_that_a_state_does_not_know_of_are_counted():
    """The same state again and again, in the same engine."""
    run = started(seed=None, noise="secure")
    advance(run, 2)
    engine, state = run[2], run[2].state_dict()
    spent = []
    for loads in (1, 2, 3):
        engine.load_state_dict(state)
        advance(run, 1)
        assert engine.steps_done == 2 + loads
        assert engine.receipt()["lost_steps"] == loads - 1
        spent.append(engine.get_epsilon())
    assert spent == sorted(set(spent))
    assert spent[-1] == engine.plan.epsilon(5)


def test_branches_of_one_run_are_added_up():
    """Two engines go on from one state, and the one loads what the other made."""
    first, second = (started(seed=None, noise="secure") for _ in range(2))
    advance(first, 2)
    second[2].load_state_dict(first[2].state_dict())
    advance(first, 1)
    advance(second, 3)
    first[2].load_state_dict(second[2].state_dict())
    assert first[2].steps_done == 2 + 1 + 3
    second[2].load_state_dict(first[2].state_dict())
    assert second[2].steps_done == 2 + 1 + 3
    second[2].load_state_dict(first[2].state_dict(), lost_steps=1)
    assert second[2].steps_done == 2 + 1 + 3 + 1
    first[2].load_state_dict(second[2].state_dict())
    assert first[2].steps_done == 2 + 1 + 3 + 1


def test_seeded_noise_is_not_used_again_on_other_gradients():
    run = started()
    advance(run, 2)
    state = run[2].state_dict()
    run[2].load_state_dict(state)
    advance(run, 3)
    spent, kept = run[2].get_epsilon(), run[2].state_dict()
    with pytest.raises(PrivacyError, match=r"3 steps .* new PrivacyEngine"):
        run[2].load_state_dict(state)
    assert run[2].get_epsilon() == spent
    assert str(run[2].state_dict()) == str(kept)
    started()[2].load_state_dict(state)
