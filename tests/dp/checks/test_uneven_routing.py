"""Samples that compete for places mix where most of them want the same ones."""

import math

import pytest
import torch
from torch import nn

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached

WIDTH = 8
#: The capacity is also seen to depend on the number of samples, by its rounding.
REFUSED = r"1 \(Switch\) mixes|must not depend on the batch size"


class Switch(nn.Module):
    """A layer of experts of limited capacity: tokens beyond it are dropped.

    Source: Fedus, Zoph and Shazeer (2022), Switch transformers.
    """

    def __init__(self, experts, factor, rounded=math.ceil, key=None):
        super().__init__()
        self.router = nn.Linear(WIDTH, experts)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(experts))
        self.factor, self.rounded, self.key = factor, rounded, key

    def forward(self, x):
        gate, expert = self.router(x).softmax(-1).flatten(0, -2).max(-1)
        places = self.rounded(self.factor * len(gate) / len(self.experts))
        wanted = nn.functional.one_hot(expert, len(self.experts))
        if self.key == "priority":
            order = gate.argsort(descending=True, stable=True)
            before = torch.empty_like(wanted)
            before[order] = wanted[order].cumsum(0)
        else:
            before = wanted.cumsum(0)
        kept = (before * wanted).sum(-1) <= places
        every = torch.stack([each(x).tanh() for each in self.experts]).flatten(1, -2)
        chosen = every[expert, torch.arange(len(gate))] * (gate * kept)[:, None]
        return x + chosen.view(x.shape)


class Positions(nn.Module):
    """Embeds tokens and their positions, at the scales of GPT-2."""

    def __init__(self, length=6):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, WIDTH), nn.Embedding(length, WIDTH)

    def forward(self, ids):
        places = torch.arange(ids.shape[1]).expand(len(ids), -1)
        return self.tokens(ids) + 0.5 * self.places(places)


class Mean(nn.Module):
    def forward(self, x):
        return x.flatten(1, -2).mean(1)


def first_pass(net, x):
    engine, _ = attached(net, batch_size=len(x))
    try:
        net(x)
    finally:
        engine.detach()


CAPACITIES = [(2, 1.5), (2, 1.8), (4, 2.0), (4, 3.0), (8, 1.25), (8, 4.0), (8, 7.0)]
SEEDS = range(4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("experts", "factor"), CAPACITIES)
def test_a_capacity_that_an_uneven_batch_exceeds_is_refused(experts, factor, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, WIDTH), Switch(experts, factor), nn.Linear(8, 3))
    with pytest.raises(UnsupportedModuleError, match=REFUSED):
        first_pass(net, torch.randn(32, 5))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["vectors", "ids", "images"])
def test_tokens_that_compete_between_samples_are_refused(kind, seed):
    torch.manual_seed(seed)
    first, x = {
        "vectors": (nn.Linear(5, WIDTH), torch.randn(32, 6, 5)),
        "ids": (Positions(), torch.randint(11, (32, 6))),
        "images": (nn.Unflatten(1, (1, 8)), torch.randn(32, 8, 3, 3)),
    }[kind]
    if kind == "images":
        first = nn.Sequential(nn.Conv2d(8, WIDTH, 1), ChannelsLast())
    net = nn.Sequential(first, Switch(2, 1.5), Mean(), nn.Linear(WIDTH, 3))
    with pytest.raises(UnsupportedModuleError, match=REFUSED):
        first_pass(net, x)


class ChannelsLast(nn.Module):
    def forward(self, x):
        return x.movedim(1, -1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_dropped_token_of_the_least_gate_is_refused(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(5, WIDTH), Switch(2, 1.5, key="priority"), nn.Linear(WIDTH, 3)
    )
    with pytest.raises(UnsupportedModuleError, match=REFUSED):
        first_pass(net, torch.randn(32, 5))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [(5,), (6, 5)])
def test_room_for_all_passes(shape, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, WIDTH), Switch(2, 2.0), nn.Linear(WIDTH, 3))
    first_pass(net, torch.randn(32, *shape))
