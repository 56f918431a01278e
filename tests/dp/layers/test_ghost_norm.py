"""When norms are made without gradients, and what float32 may not hide."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.layers import rule_for

CHOICES = {
    # (layer, input shape, output shape, ghost?): T^2 (d + p) against 20 d p
    "vector": (nn.Linear(3, 3), (2, 3), (2, 3), True),  # T = 1: always
    "short sequence": (nn.Linear(64, 64), (2, 25, 64), (2, 25, 64), True),
    "long sequence": (nn.Linear(64, 64), (2, 26, 64), (2, 26, 64), False),
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
    assert rule_for(layer).prefers_ghost(layer, x, g) is expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cancelling_positions_do_not_hide_a_norm(dtype):
    # Position 2 takes back what position 1 gives, up to a part that the products of
    # Gram entries of size L^4 cannot hold: the true norm is 1, round-off is far above.
    length = torch.finfo(dtype).eps ** -0.75
    layer = nn.Linear(2, 1, bias=False, dtype=dtype)
    x = torch.tensor([[[length, 0.0], [length, 1.0 / length]]], dtype=dtype)
    g = torch.tensor([[[length], [-length]]], dtype=dtype)
    true = rule_for(layer).per_sample_gradients(layer, x, g)["weight"].norm()
    assert true == 1.0
    assert rule_for(layer).squared_norms(layer, x, g).sqrt() >= true


def test_the_floor_is_not_felt_by_ordinary_samples():
    torch.manual_seed(0)
    layer = nn.Linear(32, 32)
    x, g = torch.randn(8, 20, 32), torch.randn(8, 20, 32)
    rule = rule_for(layer)
    own = rule.per_sample_gradients(layer, x.double(), g.double())
    expected = sum(v.flatten(1).square().sum(1) for v in own.values())
    # 20 terms of 32 products each in float32: about 1e-6
    torch.testing.assert_close(
        rule.squared_norms(layer, x, g).double(), expected, rtol=5e-6, atol=0
    )
