"""What every rule of the table must do; a new entry is tested once it has a case."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpsgd_explorer.dp.layers import RULES, rule_for
from tests.dp.layers.cases import CASES, rule_case
from tests.dp.layers.oracle import (
    EXACT,
    Case,
    check_every_way,
    check_gradients,
    loop_gradients,
    squared_norms,
    vmap_gradients,
)

KINDS = pytest.mark.parametrize("kind", RULES, ids=lambda kind: kind.__name__)
pytestmark = pytest.mark.filterwarnings(
    "ignore:There is a performance drop",  # of vmap over attention
    "ignore:Support for mismatched key_padding_mask",
    "ignore:Using padding='same' with even kernel lengths",  # torch's word on its copy
)
# Where positions cancel, the bound on rounding is seen even in float64.
NEVER_SHORT = {"rtol": 1e-7, "atol": 1e-7}
TRIES = settings(max_examples=15, deadline=None)
NOT_MAPPED = (nn.EmbeddingBag, nn.RNN, nn.GRU, nn.LSTM)  # vmap does not take them


def test_every_rule_has_cases():
    assert CASES.keys() == RULES.keys()


@KINDS
@TRIES
@given(data=st.data())
def test_every_way_is_that_of_one_backward_a_sample(kind, data):
    case = data.draw(rule_case(kind))
    before = [x.clone() for x in case.inputs]
    check_every_way(case, ("ghost", "instantiate", "MixGhostClip"), NEVER_SHORT)
    assert all(torch.equal(x, y) for x, y in zip(case.inputs, before, strict=True))


@pytest.mark.parametrize(
    "kind", [k for k in RULES if k not in NOT_MAPPED], ids=lambda kind: kind.__name__
)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_gradients_are_those_of_torch_func(kind, data):
    case = data.draw(rule_case(kind).filter(lambda case: len(case.inputs[0])))
    case.net.inner = False
    check_gradients(case, vmap_gradients)


@pytest.mark.parametrize("kernel", [1, 5])  # instantiated by convolution, by patches
def test_images_in_any_place_and_order_of_memory_are_read_right(kernel):
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 64, kernel, padding=kernel // 2, groups=2).double()
    x = torch.randn(5, 4, 3, 3, dtype=torch.float64)
    x = x.to(memory_format=torch.channels_last)[2:4]
    g = torch.randn(2, 64, 1, 1, dtype=torch.float64).expand(2, 64, 3, 3)
    case = Case(layer, (x,))
    expected = loop_gradients(case, [g])
    rule = rule_for(layer)
    actual = rule.per_sample_gradients(layer, x, g)
    torch.testing.assert_close(actual, expected, **EXACT)
    torch.testing.assert_close(
        rule.ghost_norm.squared_norms(layer, x, g), squared_norms(expected, 2), **EXACT
    )
