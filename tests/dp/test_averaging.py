"""The running average of parameters: its formula, its use, its state."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.functional import ParameterAverage
from dpsgd_explorer.errors import ConfigError
from tests.dp.nets import linear


def set_to(net, value):
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(value)


def averaged(values, decay=0.5):
    net = linear()
    set_to(net, 0.0)
    average = ParameterAverage(net, decay)
    for value in values:
        set_to(net, value)
        average.update()
    return net, average


def test_the_average_is_that_of_the_formula():
    values, expected = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0], 0.0
    for t, value in enumerate(values):
        decay = min(0.5, (1 + t) / (10 + t))
        expected = decay * expected + (1 - decay) * value
    net, average = averaged(values)
    with average.in_use():
        seen = torch.cat([p.flatten() for p in net.parameters()])
        torch.testing.assert_close(seen, torch.full_like(seen, expected))
    assert all(bool((p == 5.0).all()) for p in net.parameters())


def test_parameters_come_back_after_an_exception():
    net, average = averaged([1.0, 2.0])
    with pytest.raises(KeyError), average.in_use():
        raise KeyError
    assert all(bool((p == 2.0).all()) for p in net.parameters())


def test_frozen_parameters_are_left_alone():
    net = nn.Sequential(linear(), linear().requires_grad_(False))
    average = ParameterAverage(net, 0.9)
    assert average.state_dict()["averages"].keys() == {"0.weight", "0.bias"}


def test_an_average_goes_on_from_its_state():
    _, whole = averaged([1.0, 2.0, 3.0])
    _, first = averaged([1.0, 2.0])
    net, second = averaged([])
    second.load_state_dict(first.state_dict())
    set_to(net, 3.0)
    second.update()
    torch.testing.assert_close(second.state_dict(), whole.state_dict())


def test_an_average_has_less_noise_than_the_last_model():
    torch.manual_seed(0)
    net = nn.Linear(100, 100)
    average = ParameterAverage(net, 0.99)
    for _ in range(1000):
        with torch.no_grad():
            net.weight.normal_()
        average.update()
    with average.in_use():
        # A geometric mean of weights (1 - d) d^k has variance (1 - d) / (1 + d).
        assert net.weight.std().item() == pytest.approx((0.01 / 1.99) ** 0.5, rel=0.05)


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="decay must be between"):
        ParameterAverage(linear(), 1.0)
    state = ParameterAverage(nn.Sequential(linear()), 0.5).state_dict()
    with pytest.raises(ConfigError, match="saved averages"):
        ParameterAverage(linear(), 0.5).load_state_dict(state)
