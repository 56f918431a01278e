"""One batch in several parts, one run in several phases."""

import copy

import pytest
import torch
from torch import nn, optim

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.registry import accountant_for
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.nets import (
    CLASSES,
    POISSON,
    attached,
    backward,
    case,
    data,
    linear,
    private_run,
    step,
    train,
)

STEPS = 5
OPTIMIZERS = {
    "momentum": lambda p: optim.SGD(p, 0.5, momentum=0.9),
    "sgd fused": lambda p: optim.SGD(p, 0.5, momentum=0.9, fused=True),
    "adam foreach": lambda p: optim.Adam(p, 0.1, foreach=True),
    "adam fused": lambda p: optim.Adam(p, 0.1, fused=True),
    "adamw": lambda p: optim.AdamW(p, 0.1, weight_decay=0.1),
    "adagrad": lambda p: optim.Adagrad(p, 0.1, foreach=True),
}
ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])


def deep():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, CLASSES))
    return net.double()


def records():
    x, y = data()
    return x.double(), y


def trained(make, **options):
    """Return a net after a run of private steps."""
    net = deep()
    private_run(net, make(net.parameters()), records(), STEPS, **options)
    return net.state_dict()


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_parts_make_the_run_that_whole_batches_make(make):
    whole = trained(make)
    for size in (1, 3, 1000):
        split = trained(make, physical_batch_size=size)
        torch.testing.assert_close(split, whole, rtol=1e-9, atol=1e-12)


@ENGINE
@pytest.mark.parametrize("cleared", ["before", "after"])
def test_zero_grad_may_stand_before_backward_or_after_the_step(cleared, engine):
    whole = trained(OPTIMIZERS["momentum"])
    net = deep()
    own, optimizer = attached(
        net, OPTIMIZERS["momentum"](net.parameters()), **POISSON, steps=STEPS, seed=5,
        physical_batch_size=3, engine=engine,
    )  # fmt: skip
    parts, sizes = 0, []
    for x, y in own.poisson_loader(records()).all_epochs():
        if cleared == "before":
            optimizer.zero_grad()
        backward(net, x, y)
        done = own.steps_done
        optimizer.step()
        if cleared == "after":
            optimizer.zero_grad()
        parts += 1
        sizes.append(len(x))
        assert own.steps_done - done in (0, 1)
    assert own.steps_done == STEPS < parts
    assert max(sizes) == 3
    assert own.receipt()["done"][0]["noise_draws"] == STEPS
    torch.testing.assert_close(net.state_dict(), whole, rtol=1e-9, atol=1e-12)


def loop_in_parts(net, size=3):
    engine, optimizer = attached(net, **POISSON, physical_batch_size=size)
    return engine, optimizer, engine.poisson_loader(data()).all_epochs()


def test_nothing_moves_before_the_last_part():
    net = linear()
    before = copy.deepcopy(net.state_dict())
    engine, optimizer, parts = loop_in_parts(net)
    train(net, optimizer, [next(parts)])
    assert engine.steps_done == 0
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)
    with pytest.raises(PrivacyError, match="between the draw of a batch and its step"):
        engine.state_dict()


def test_a_part_without_a_step_is_refused():
    net = linear()
    _, _, parts = loop_in_parts(net)
    backward(net, *next(parts))
    with pytest.raises(PrivacyError, match="no step followed"):
        next(parts)


def test_a_part_without_a_backward_is_refused():
    net = linear()
    _, optimizer, parts = loop_in_parts(net)
    step(net, optimizer, *next(parts))
    next(parts)
    with pytest.raises(PrivacyError, match=r"3 samples .* drawn"):
        optimizer.step()


def test_a_part_lost_to_zero_grad_is_refused():
    net = linear()
    _, optimizer, parts = loop_in_parts(net)
    train(net, optimizer, [next(parts)])
    backward(net, *next(parts))
    optimizer.zero_grad()
    with pytest.raises(PrivacyError):
        optimizer.step()


def test_a_batch_left_in_the_middle_is_refused():
    net = linear()
    engine, optimizer, parts = loop_in_parts(net)
    step(net, optimizer, *next(parts))
    with pytest.raises(PrivacyError, match="no step followed"):
        next(engine.poisson_loader(data()).all_epochs())


def test_batches_from_elsewhere_are_not_split():
    with pytest.raises(ConfigError, match="call backward once for each part"):
        attached(linear(), physical_batch_size=4)


def test_a_diagnosis_is_of_the_whole_batch():
    net = linear()
    engine, optimizer, parts = loop_in_parts(net)
    sizes = []
    while engine.steps_done == 0:
        x, y = next(parts)
        sizes.append(len(x))
        train(net, optimizer, [(x, y)])
    assert engine.diagnostics.batch_size == sum(sizes) > 3


SECOND = {"batch_size": 4, "sample_size": 40, "steps": 3, "noise_multiplier": 2.0}
SECOND["accounting_mode"] = "rdp"


def second_phase(first, net):
    engine = PrivacyEngine(net, **SECOND, after=first)
    optimizer = optim.Adam([p for p in net.parameters() if p.requires_grad])
    engine.attach(optimizer)
    train(net, optimizer, engine.poisson_loader(records()).all_epochs())
    return engine


def test_a_second_phase_adds_up_in_the_accountant():
    net = deep()
    first = private_run(net, optim.SGD(net.parameters(), 0.1), records(), STEPS)
    first.detach()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(".bias" not in name)
    second = second_phase(first, net)
    phases = [Phase(0.2, 1.0, STEPS), Phase(0.1, 2.0, 3)]
    expected = accountant_for("rdp").epsilons(phases, [STEPS + 3], 1 / 80)[0]
    assert second.get_epsilon() == expected
    assert second.get_epsilon() > max(first.get_epsilon(), second.plan.epsilon(3))
    assert second.receipt()["epsilon"] == expected
    assert second.receipt()["earlier"] == [
        {"sample_rate": 0.2, "noise_multiplier": 1.0, "steps": STEPS}
    ]
    alone = PrivacyEngine(net, **SECOND)
    with pytest.raises(ConfigError, match="earlier"):
        alone.load_state_dict(second.state_dict())


def test_an_earlier_phase_that_nobody_vouches_for_gives_no_epsilon():
    net, x, y = case("mlp")
    first, optimizer = attached(net, noise_multiplier=1.0)
    step(net, optimizer, x, y)
    first.detach()
    second = PrivacyEngine(
        net, batch_size=4, sample_size=1000, steps=3, noise_multiplier=2.0, after=first
    )
    with pytest.raises(PrivacyError, match="assume_poisson"):
        second.get_epsilon()
    first.get_epsilon(assume_poisson=True)
    assert second.get_epsilon() == pytest.approx(first.plan.epsilon(1))


def test_the_same_engine_goes_on_with_another_optimizer():
    net = deep()
    engine = PrivacyEngine(net, **POISSON, steps=6)
    batches = engine.poisson_loader(records()).all_epochs()
    for make in (OPTIMIZERS["momentum"], OPTIMIZERS["adamw"]):
        optimizer = make(net.parameters())
        engine.attach(optimizer)
        for _ in range(3):
            train(net, optimizer, [next(batches)])
        engine.detach()
    assert engine.steps_done == 6
    assert engine.get_epsilon() == engine.plan.epsilon(6)


def test_named_params_outside_of_which_something_is_trainable_are_refused():
    net = deep()
    bias = [(n, p) for n, p in net.named_parameters() if "bias" in n]
    options = POISSON | {"steps": 1}
    with pytest.raises(ConfigError, match=r"0\.weight, 2\.weight"):
        PrivacyEngine(net, named_params=bias, **options)
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(".bias" in name)
    weights = copy.deepcopy(net[0].weight)
    engine = PrivacyEngine(net, named_params=bias, **options)
    optimizer = optim.SGD([p for _, p in bias], lr=0.1)
    engine.attach(optimizer)
    for x, y in engine.poisson_loader(records()).all_epochs():
        step(net, optimizer, x, y)
    assert torch.equal(net[0].weight, weights)
    assert net[0].bias.grad is not None
