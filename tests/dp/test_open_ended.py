"""A run without a length: noise is given, and epsilon is that of the steps done."""

import itertools

import pytest
import torch
from torch.optim import SGD

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.schedules import Linear
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveClipping
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp import nets
from tests.dp.nets import data, linear

SIZES = {"batch_size": 9, "sample_size": 40, "noise_multiplier": 1.0}
FIRST, SECOND, THIRD = EPOCHS = (5, 4, 5)  # ceil(40 e / 9): 5, 9, 14


def started(**options):
    """Return (net, optimizer, engine)."""
    net = linear()
    optimizer = SGD(net.parameters(), lr=0.1)
    engine = PrivacyEngine(net, **SIZES, **options)
    engine.attach(optimizer)
    return net, optimizer, engine


def train(run, loader, most=None):
    """Train on one iteration of a loader, or its beginning; return its steps."""
    net, optimizer, engine = run
    before = engine.steps_done
    nets.train(net, optimizer, itertools.islice(loader, most))
    return engine.steps_done - before


@pytest.mark.parametrize("workers", [0, 1])
def test_each_iteration_is_an_epoch_and_epsilon_that_of_the_steps_done(workers):
    run = started()
    engine = run[2]
    loader = engine.poisson_loader(data(), num_workers=workers)
    for length in EPOCHS:
        assert len(loader) == length
        assert train(run, loader) == length
    plan = Plan(
        sample_size=40, expected_batch_size=9, steps=sum(EPOCHS), noise_multiplier=1.0,
        delta=1 / 80,
    )  # fmt: skip
    assert engine.get_epsilon() == plan.epsilon()
    assert engine.receipt()["told"]["planned_steps"] is None
    assert engine.receipt()["told"]["steps"] == sum(EPOCHS)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iteration_broken_off_is_completed_by_the_next(workers):
    run = started()
    loader = run[2].poisson_loader(data(), num_workers=workers)
    assert train(run, loader, most=2) == 2
    assert train(run, loader) == FIRST - 2
    assert train(run, loader) == SECOND


def test_a_resumed_open_run_goes_on_in_its_epoch():
    run, other = started(noise="seeded", seed=1), started(noise="seeded", seed=2)
    assert train(run, run[2].poisson_loader(data())) == FIRST
    train(run, run[2].poisson_loader(data()), most=2)
    other[2].load_state_dict(run[2].state_dict())
    other[0].load_state_dict(run[0].state_dict())
    ends = [train(each, each[2].poisson_loader(data())) for each in (run, other)]
    assert ends == [SECOND - 2] * 2
    assert torch.equal(run[0].weight, other[0].weight)


def test_the_loader_may_be_given_a_number():
    run = started()
    loader = run[2].poisson_loader(data(), steps=7)
    assert [train(run, loader), train(run, loader)] == [FIRST, 7 - FIRST]
    with pytest.raises(PrivacyError, match="all 7 planned batches"):
        train(run, loader)


def test_adaptive_clipping_needs_no_length():
    run = started(clipping_fn="Abadi", clipping_schedule=AdaptiveClipping())
    loader = run[2].poisson_loader(data())
    assert [train(run, loader), train(run, loader)] == [FIRST, SECOND]
    assert run[2].get_epsilon() > 0


@pytest.mark.parametrize("name", ["noise_schedule", "clipping_schedule"])
def test_a_schedule_needs_a_length(name):
    with pytest.raises(ConfigError, match="length of the run must be given") as caught:
        started(**{name: Linear(to=0.5)})
    assert caught.value.field == name


def test_a_target_needs_a_length():
    with pytest.raises(ConfigError, match="one of steps or epochs, got neither"):
        PrivacyEngine(linear(), batch_size=9, sample_size=40, target_epsilon=3.0)
