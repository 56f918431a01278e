"""A second engine on the same parameters must count what the first has spent."""

import copy
import gc
import warnings
import weakref

import pytest
from torch import nn
from torch.optim import SGD

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.ledger import spending
from dpsgd_explorer.errors import PrivacyWarning
from tests.dp.nets import data, linear, step


def engine_of(net, **options):
    return PrivacyEngine(
        net, batch_size=8, sample_size=40, steps=9, noise_multiplier=1.0,
        sampling="unchecked", **options,
    )  # fmt: skip


def run(net, engine):
    """Attach, make a step, detach; return the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer = SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
        engine.attach(optimizer)
        step(net, optimizer, *data(8))
        engine.detach()
        optimizer.zero_grad()
    return [str(w.message) for w in caught if w.category is PrivacyWarning]


def test_a_second_engine_that_does_not_count_the_first_is_warned_of():
    net = linear()
    assert run(net, engine_of(net)) == []
    (message,) = run(net, engine_of(net))
    assert "weight, bias" in message
    assert "after=" in message
    with pytest.warns(PrivacyWarning) as caught:
        engine_of(net).attach(SGD(net.parameters(), lr=0.1))
    assert caught[0].filename == __file__


def test_the_same_engine_and_later_phases_are_silent():
    net = linear()
    first = engine_of(net)
    assert run(net, first) == run(net, first) == []
    second = engine_of(net, after=first)
    third = engine_of(net, after=second)
    assert run(net, second) == run(net, third) == []
    third.attach(SGD(net.parameters(), lr=0.1))


def test_an_engine_that_goes_on_from_the_first_ones_state_is_silent():
    net = linear()
    first, second = engine_of(net), engine_of(net)
    run(net, first)
    second.load_state_dict(first.state_dict())
    assert run(net, second) == []


def test_what_shares_a_part_is_warned_of_and_a_copy_is_not():
    body = linear()
    first = nn.Sequential(body)
    run(first, engine_of(first))
    second = nn.Sequential(body, nn.Linear(3, 3))
    (message,) = run(second, engine_of(second))
    assert "1.weight" not in message
    third = copy.deepcopy(first)
    assert run(third, engine_of(third)) == []


def test_attaching_alone_spends_nothing():
    net = linear()
    idle = engine_of(net)
    idle.attach(SGD(net.parameters(), lr=0.1))
    idle.detach()
    assert run(net, engine_of(net)) == []


def test_parameters_are_not_held():
    net = linear()
    run(net, engine_of(net))
    parameters = [weakref.ref(p) for p in net.parameters()]
    assert all(parameter() in spending._WRITERS for parameter in parameters)
    del net
    gc.collect()
    assert [parameter() for parameter in parameters] == [None, None]
