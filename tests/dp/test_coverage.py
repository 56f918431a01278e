"""Every trainable parameter is reached by a rule, or the module is refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached


def with_inside(inside):
    return nn.Sequential(nn.Linear(4, 6), nn.Sequential(inside), nn.Linear(6, 3))


def first_pass(net):
    return net(torch.randn(5, 4))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.layer(self.layer(x)))


class Borrowed(nn.Module):
    """Uses a weight without calling its layer."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.layer(x)) @ self.head.weight


class OnlyBorrowed(Borrowed):
    def forward(self, x):
        return F.linear(x, self.layer.weight) + self.head(x).sum(1, keepdim=True)


class Hooked(nn.Module):
    """A hook changes what a layer returns, in a way that depends on its weight."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.head.register_forward_hook(lambda m, args, out: out * m.weight.sum())

    def forward(self, x):
        return self.head(x)


class Folded(nn.Module):
    """Counts positions as samples."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        return self.head(x.reshape(-1, 2)).reshape(len(x), -1)


class PositionsFirst(nn.Module):
    """Puts positions where samples belong."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(1, 3)

    def forward(self, x):
        return self.head(x.T.unsqueeze(-1)).sum(0)


class Shared(nn.Module):
    """One row of ids for the whole batch."""

    def __init__(self):
        super().__init__()
        self.position, self.head = nn.Embedding(4, 3), nn.Linear(1, 3)

    def forward(self, x):
        places = self.position(torch.arange(4).unsqueeze(0))
        return (self.head(x.unsqueeze(-1)) + places).sum(1)


UNCOVERED = {
    Twice: "layer ran twice in one forward pass",
    Borrowed: "head.weight do not add up",
    OnlyBorrowed: "layer.weight do not add up",
    Hooked: "head.weight do not add up",
    Folded: "head must see one row for each of the 4 samples, got 8",
    PositionsFirst: "mixes|first dimension|do not add up",
    Shared: "position must see one row for each of the 4 samples, got 1",
}


@pytest.mark.parametrize("kind", UNCOVERED, ids=lambda kind: kind.__name__)
def test_uses_that_the_rules_do_not_see_are_refused(kind):
    net = kind()
    attached(net)
    with pytest.raises(UnsupportedModuleError, match=UNCOVERED[kind]):
        first_pass(net)


@pytest.mark.parametrize("kind", [Twice, Borrowed, Shared])
def test_the_plain_engine_takes_them(kind):
    net = kind()
    attached(net, engine="microbatch")
    first_pass(net)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(4, 4), nn.Parameter(torch.ones(1))


def test_tied_weights_are_refused_when_attached():
    with pytest.raises(UnsupportedModuleError, match="one and two share a parameter"):
        attached(Tied())


@pytest.mark.parametrize(
    ("inside", "name"),
    [(Bare(), r"1\.0 \(Bare\)"), (nn.LSTM(6, 6), r"1\.0 \(LSTM\)")],
)
def test_a_trainable_module_without_a_rule_is_refused_when_attached(inside, name):
    with pytest.raises(UnsupportedModuleError, match=name):
        attached(with_inside(inside))


def test_frozen_it_is_accepted():
    net = nn.Sequential(nn.PReLU().requires_grad_(False), nn.Linear(4, 3))
    attached(net)
    first_pass(net)
