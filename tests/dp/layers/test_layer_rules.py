"""What every rule of the table must do; a new entry is tested once it has a case."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpsgd_explorer.dp.layers import RULES, rule_for
from tests.dp.layers.cases import CASES, rule_case
from tests.dp.layers.reference import autograd_gradients, squared_norms

KINDS = pytest.mark.parametrize("kind", RULES, ids=lambda kind: kind.__name__)
pytestmark = pytest.mark.filterwarnings(
    "ignore:Using padding='same' with even kernel lengths"  # torch's word on its copy
)
EXACT = {"rtol": 1e-10, "atol": 1e-11}
TRIES = settings(max_examples=40, deadline=None)


def test_every_rule_has_cases():
    assert CASES.keys() == RULES.keys()


@KINDS
@TRIES
@given(data=st.data())
def test_gradients_are_those_of_one_backward_a_sample(kind, data):
    case = data.draw(rule_case(kind))
    actual = rule_for(case[0]).per_sample_gradients(*case)
    torch.testing.assert_close(actual, autograd_gradients(*case), **EXACT)


@KINDS
@TRIES
@given(data=st.data())
def test_squared_norms_are_those_of_the_gradients(kind, data):
    case = data.draw(rule_case(kind))
    expected = squared_norms(autograd_gradients(*case), len(case[1]))
    actual = rule_for(case[0]).squared_norms(*case)
    torch.testing.assert_close(actual, expected, **EXACT)


@KINDS
@TRIES
@given(data=st.data())
def test_weighted_gradients_are_added_to_what_is_there(kind, data):
    case = data.draw(rule_case(kind))
    weights = torch.rand(len(case[1]), dtype=torch.float64)
    gradients = autograd_gradients(*case)
    sums = {name: torch.randn_like(g.sum(0)) for name, g in gradients.items()}
    expected = {
        name: sums[name] + torch.einsum("b,b...->...", weights, gradient)
        for name, gradient in gradients.items()
    }
    rule_for(case[0]).weighted_gradients(*case, weights, sums)
    torch.testing.assert_close(sums, expected, **EXACT)


@KINDS
@TRIES
@given(data=st.data())
def test_inputs_are_left_as_they_were(kind, data):
    layer, x, g = data.draw(rule_case(kind))
    kept = x.clone(), g.clone()
    rule = rule_for(layer)
    weights = torch.rand(len(x), dtype=torch.float64)
    sums = {n: torch.zeros_like(p) for n, p in layer.named_parameters()}
    rule.squared_norms(layer, x, g)
    rule.weighted_gradients(layer, x, g, weights, sums)
    assert torch.equal(x, kept[0])
    assert torch.equal(g, kept[1])


@pytest.mark.parametrize("kernel", [1, 5])  # instantiated by convolution, by patches
def test_images_in_any_place_and_order_of_memory_are_read_right(kernel):
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 64, kernel, padding=kernel // 2, groups=2).double()
    x = torch.randn(5, 4, 3, 3, dtype=torch.float64)
    x = x.to(memory_format=torch.channels_last)[2:4]
    g = torch.randn(2, 64, 1, 1, dtype=torch.float64).expand(2, 64, 3, 3)
    case = layer, x, g
    assert rule_for(layer).prefers_ghost(*case) is (kernel == 5)
    expected = autograd_gradients(*case)
    rule = rule_for(layer)
    torch.testing.assert_close(rule.per_sample_gradients(*case), expected, **EXACT)
    torch.testing.assert_close(
        rule.squared_norms(*case), squared_norms(expected, 2), **EXACT
    )
