"""Which layers get a rule, which are left to torch.func, and what is refused."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from dpsgd_explorer.dp import LayerRule, register_rule
from dpsgd_explorer.dp.layers import ANY_MODULE, RULES, rule_for
from dpsgd_explorer.errors import ConfigError, UnsupportedModuleError
from tests.dp.layers.oracle import Case, check_gradients


class SameForward(nn.Linear):
    def extra_repr(self):
        return "tells more"


class OtherForward(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class OtherConvolution(nn.Conv2d):
    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x, weight - weight.mean(), bias)


class Replaced(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.forward = lambda x: x @ self.weight


class ExtraParameter(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.gain = nn.Parameter(torch.ones(1))


class TransposedLinear(nn.Module):
    """y = x W + b with W of shape [d, p], as in older language models."""

    def __init__(self, d, p):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(d, p)),
            nn.Parameter(torch.ones(p)),
        )

    def forward(self, x):
        return x @ self.weight + self.bias


class TransposedLinearRule(LayerRule[TransposedLinear]):
    def per_sample_gradients(self, layer, activations, backprops):
        x, g = activations.flatten(1, -2), backprops.flatten(1, -2)
        return {"weight": x.transpose(1, 2) @ g, "bias": g.sum(1)}


def test_a_subclass_with_the_same_forward_uses_its_parents_rule():
    assert rule_for(SameForward(2, 2)) is RULES[nn.Linear]


LEFT_TO_TORCH = {
    "other forward": OtherForward(2, 2),
    "other convolution": OtherConvolution(1, 1, 1),
    "replaced forward": Replaced(),
    "extra parameter": ExtraParameter(),
    "unknown": nn.Bilinear(2, 2, 2),
    "weight norm": weight_norm(nn.Linear(2, 2)).parametrizations.weight,
}


@pytest.mark.parametrize("layer", LEFT_TO_TORCH.values(), ids=LEFT_TO_TORCH)
def test_what_no_rule_knows_is_left_to_torch_func(layer):
    assert rule_for(layer) is ANY_MODULE


def test_a_frozen_extra_parameter_does_no_harm():
    layer = ExtraParameter()
    layer.gain.requires_grad_(False)
    assert rule_for(layer) is RULES[nn.Linear]


REFUSED = {
    "ids by frequency": (nn.Embedding(2, 2, scale_grad_by_freq=True), "scale_grad"),
    "rewritten rows": (nn.Embedding(2, 2, max_norm=1.0), "max_norm"),
    "bags by frequency": (nn.EmbeddingBag(2, 2, scale_grad_by_freq=True), "scale_grad"),
    "rewritten bags": (nn.EmbeddingBag(2, 2, max_norm=1.0), "max_norm"),
    "statistics": (
        nn.InstanceNorm2d(2, affine=True, track_running_stats=True),
        "track_running_stats",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_settings_that_break_the_guarantee_are_refused_by_name(case):
    layer, reason = case
    with pytest.raises(UnsupportedModuleError, match=reason) as caught:
        rule_for(layer, "body.2")
    assert f"body.2 ({type(layer).__name__})" in str(caught.value)


def case_of(layer):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), layer).double()
    return Case(net, (torch.randn(4, 3, 2, dtype=torch.float64),))


PASSES = {
    "other forward": lambda: OtherForward(2, 2),
    "replaced forward": Replaced,
    "extra parameter": ExtraParameter,
}


@pytest.mark.parametrize("name", PASSES)
def test_torch_func_gives_the_gradients_of_one_backward_a_sample(name):
    check_gradients(case_of(PASSES[name]()))


def test_a_rule_from_outside_is_used_until_it_is_taken_out():
    layer = TransposedLinear(2, 5)
    assert rule_for(layer) is ANY_MODULE
    rule = TransposedLinearRule()
    take_out = register_rule(TransposedLinear, rule)
    try:
        assert rule_for(layer) is rule
        check_gradients(case_of(layer))
        with pytest.raises(ConfigError, match="got TransposedLinear, which has one"):
            register_rule(TransposedLinear, rule)
    finally:
        take_out()
    assert rule_for(layer) is ANY_MODULE


@pytest.mark.parametrize(
    ("kind", "rule", "field"),
    [("Linear", TransposedLinearRule(), "kind"), (nn.Tanh, nn.Tanh(), "rule")],
)
def test_what_is_no_rule_is_not_registered(kind, rule, field):
    with pytest.raises(ConfigError) as caught:
        register_rule(kind, rule)
    assert caught.value.field == field
    assert kind not in RULES
