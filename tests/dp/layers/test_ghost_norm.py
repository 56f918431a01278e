"""When norms are made without gradients, and what float32 may not hide."""

import math

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.backends.rounding import vector_norms
from dpsgd_explorer.dp.engines.norm_choice import chosen_ghost_norm
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.layers.round_off import MAX_INFLATION

CHOICES = {
    # (layer, input shape, output shape, ghost?): T (d + p) (T + 45) against 16 d p
    "vector": (nn.Linear(3, 3), (2, 3), (2, 3), True),  # T = 1: always
    "short sequence": (nn.Linear(64, 64), (2, 9, 64), (2, 9, 64), True),
    "long sequence": (nn.Linear(64, 64), (2, 10, 64), (2, 10, 64), False),
    "many positions": (nn.Conv2d(1, 16, 8), (2, 1, 21, 21), (2, 16, 14, 14), False),
    "few positions": (nn.Conv2d(64, 128, 3), (2, 64, 6, 6), (2, 128, 4, 4), True),
    "copies cost": (nn.Conv2d(16, 32, 4), (2, 16, 8, 8), (2, 32, 5, 5), False),
    "depthwise": (nn.Conv2d(8, 8, 3, groups=8), (2, 8, 4, 4), (2, 8, 2, 2), False),
    "group norm": (nn.GroupNorm(2, 4), (2, 4, 1), (2, 4, 1), False),
    "layer norm": (nn.LayerNorm(4), (2, 4), (2, 4), False),
}


@pytest.mark.parametrize("case", CHOICES.values(), ids=CHOICES)
def test_ghost_is_chosen_where_it_costs_less(case):
    layer, inputs, outputs, expected = case
    x, g = torch.zeros(inputs), torch.zeros(outputs)
    chosen = chosen_ghost_norm("MixOpt", rule_for(layer), layer, x, g)
    assert (chosen is not None) is expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cancelling_positions_do_not_hide_a_norm(dtype):
    # Position 2 takes back what position 1 gives, up to a part that the products of
    # Gram entries of size L^4 cannot hold: the true norm is 1, round-off is far above.
    # A power of two, whose square takes nothing away in any order of roundings.
    length = 2.0 ** round(-0.75 * math.log2(torch.finfo(dtype).eps))
    layer = nn.Linear(2, 1, bias=False, dtype=dtype)
    x = torch.tensor([[[length, 0.0], [length, 1.0 / length]]], dtype=dtype)
    g = torch.tensor([[[length], [-length]]], dtype=dtype)
    true = rule_for(layer).per_sample_gradients(layer, x, g)["weight"].norm()
    assert true == 1.0
    assert rule_for(layer).ghost_norm.squared_norms(layer, x, g).sqrt() >= true


LAYERS = {
    # (layer, input shape): up to the longest of which float32 makes a ghost norm
    "two positions": (nn.Linear(32, 32), (8, 2, 32)),
    "sequence": (nn.Linear(32, 32), (8, 20, 32)),
    "wide": (nn.Linear(1030, 600), (2, 60, 1030)),
    "image": (nn.Conv2d(64, 128, 3), (2, 64, 6, 6)),
    "groups": (nn.Conv1d(64, 64, 3, groups=2), (4, 64, 12)),
    "tokens": (nn.Embedding(50, 16), (4, 100)),
    "long vector": (nn.Linear(5000, 3000), (4, 5000)),
}


@pytest.mark.parametrize("case", LAYERS.values(), ids=LAYERS)
def test_what_rounding_may_hide_is_not_seen_on_ordinary_samples(case):
    torch.manual_seed(0)
    layer, shape = case
    ids = isinstance(layer, nn.Embedding)
    x = torch.randint(0, 50, shape) if ids else torch.randn(shape)
    g = torch.randn(layer(x).shape)
    rule = rule_for(layer)
    assert rule.ghost_norm.inflation(layer, x, g) <= MAX_INFLATION
    own = rule.per_sample_gradients(layer, x if ids else x.double(), g.double())
    true = sum(v.flatten(1).square().sum(1) for v in own.values()).sqrt()
    found = rule.ghost_norm.squared_norms(layer, x, g).double().sqrt()
    assert (found >= true).all()
    assert (found <= true * (1 + MAX_INFLATION)).all()


@pytest.mark.parametrize("size", [1, 1000, 1025, 2**20 + 1])
def test_a_length_is_not_lost_in_one_long_addition(size):
    for value in torch.linspace(1, 2, 9).tolist():  # the same error at every addition
        row = torch.full((1, size), value)
        true = row[0, 0].double() * math.sqrt(size)
        found = vector_norms(row).double()
        assert true <= found <= true * (1 + MAX_INFLATION)
