"""One step of an engine: what the optimizer gets, and when."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import optim

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.optimizers import PendingGradient
from dpsgd_explorer.errors import PrivacyError
from tests.dp.nets import POISSON, attached, backward, case, data, flat, linear, step

AT_STEP = [name for name, each in ENGINES.items() if not each.releases_in_backward]


@pytest.mark.parametrize("engine", AT_STEP)
def test_the_noisy_gradient_is_in_grad_and_private_grad(engine):
    net, x, y = case("mlp")
    _, optimizer = attached(net, engine=engine, noise_multiplier=1.0)
    before = copy.deepcopy(net.state_dict())
    backward(net, x, y)
    assert all(isinstance(p.grad, PendingGradient) for p in net.parameters())
    optimizer.step()
    for name, p in net.named_parameters():
        assert torch.equal(p.grad, p.private_grad)
        torch.testing.assert_close(p.detach(), before[name] - 0.1 * p.grad)


@pytest.mark.parametrize("samples", [3, 30])
def test_the_sum_is_divided_by_the_expected_batch_size(samples):
    net = linear()
    _, optimizer = attached(net, batch_size=10, max_grad_norm=1.0, clipping_fn="Abadi")
    x = torch.ones(samples, 4) * 1e6  # every clipped gradient is the same, of length 1
    step(net, optimizer, x, torch.zeros(samples, dtype=torch.int64))
    norm = flat(p.grad for p in net.parameters()).norm()
    assert norm.item() == pytest.approx(samples / 10, rel=1e-4)


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, 0.01),
    "adamw": lambda p: optim.AdamW(p, 0.01, amsgrad=True),
    "adagrad": lambda p: optim.Adagrad(p, 0.01),
    "rmsprop": lambda p: optim.RMSprop(p, 0.01, centered=True),
    "adamax": lambda p: optim.Adamax(p, 0.01),
    "rprop": lambda p: optim.Rprop(p, 0.01),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_any_optimizer_takes_the_noisy_gradient(make):
    net = linear()
    plain = copy.deepcopy(net)
    optimizer, reference = make(net.parameters()), make(plain.parameters())
    engine, _ = attached(net, optimizer, **POISSON, steps=4)
    for x, y in engine.poisson_loader(data()).all_epochs():
        step(net, optimizer, x, y)
        for own, other in zip(net.parameters(), plain.parameters(), strict=True):
            other.grad = own.private_grad.clone()
        reference.step()
        optimizer.zero_grad()
    for own, other in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(own, other)


@pytest.mark.parametrize("first", ["engine", "scheduler"])
def test_learning_rate_schedulers_work_before_and_after(first):
    net = linear()
    optimizer = optim.SGD(net.parameters(), lr=1.0)
    engine = PrivacyEngine(net, **POISSON, steps=3)
    if first == "engine":
        engine.attach(optimizer)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    if first == "scheduler":
        engine.attach(optimizer)
    for x, y in engine.poisson_loader(data()).all_epochs():
        step(net, optimizer, x, y)
        scheduler.step()
        optimizer.zero_grad()
    assert optimizer.param_groups[0]["lr"] == 0.125
    assert engine.steps_done == 3


#: A third of these batches are empty.
OFTEN_EMPTY = POISSON | {"batch_size": 1, "sample_size": 20, "steps": 60, "seed": 0}


def test_an_empty_poisson_batch_is_a_noisy_step():
    net = linear()
    engine, optimizer = attached(net, **OFTEN_EMPTY)
    empty = 0
    for x, y in engine.poisson_loader(data(20)).all_epochs():
        before = net.weight.detach().clone()
        backward(net, x, y)  # the mean loss of nobody is NaN, and does no harm
        optimizer.step()
        optimizer.zero_grad()
        if len(x) == 0:
            empty += 1
            assert engine.diagnostics.batch_size == 0
            assert engine.diagnostics.clipped_fraction is None
            assert engine.diagnostics.noise_to_signal is None
            assert (net.weight != before).all()
        assert torch.isfinite(net.weight).all()
    assert empty > 5
    assert engine.steps_done == 60


def test_a_batch_of_nobody_needs_no_backward():
    net = linear()
    engine, optimizer = attached(net, **OFTEN_EMPTY)
    for x, y in engine.poisson_loader(data(20)).all_epochs():
        if len(x):
            backward(net, x, y)
        optimizer.step()
        optimizer.zero_grad()
    assert engine.receipt()["done"][0]["noise_draws"] == 60


def test_the_order_of_zero_grad_is_free():
    weights = []
    for before in (True, False):
        net = linear()
        engine, optimizer = attached(net, **POISSON, steps=4)
        for x, y in engine.poisson_loader(data()).all_epochs():
            loss = F.cross_entropy(net(x), y)
            if before:
                optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            if not before:
                net.zero_grad()
        weights.append(net.weight)
    assert torch.equal(*weights)


def test_diagnostics_are_those_of_the_last_step():
    net, x, y = case("mlp")
    engine, optimizer = attached(
        net, clipping_fn="Abadi", max_grad_norm=1e-3, noise_multiplier=2.0
    )
    with pytest.raises(PrivacyError, match="before the first step"):
        _ = engine.diagnostics
    step(net, optimizer, x, y)
    seen = engine.diagnostics
    assert seen.norms.shape == (5,)
    assert (seen.clipped_fraction, seen.non_finite, seen.batch_size) == (1.0, 0, 5)
    parameters = sum(p.numel() for p in net.parameters())
    floor = 2.0 * 1e-3 * math.sqrt(parameters) / (5 * 1e-3)  # if all pulled together
    assert seen.noise_to_signal >= floor
    text = repr(seen)
    assert "batch_size=5, clipped_fraction=1," in text
    assert "tensor" not in text  # no number for each sample


def test_evaluation_records_nothing():
    net, x, y = case("mlp")
    engine, optimizer = attached(net)
    backward(net, x, y)
    with torch.no_grad():
        net(x)
    net.eval()
    net(x)  # a graph that is never used
    net.train()
    optimizer.step()
    assert engine.diagnostics.batch_size == 5
