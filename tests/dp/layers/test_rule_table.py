"""Which layers get a rule, and what the others are told."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from dpsgd_explorer.dp.layers import RULES, rule_for
from dpsgd_explorer.errors import UnsupportedModuleError


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


REFUSED = {
    "other forward": (OtherForward(2, 2), "no layer rule"),
    "other convolution": (OtherConvolution(1, 1, 1), "no layer rule"),
    "replaced forward": (Replaced(), "replaced on the instance"),
    "extra parameter": (ExtraParameter(), "'gain'"),
    "recurrent": (nn.LSTM(2, 2), "no layer rule"),
    "transposed": (nn.ConvTranspose2d(1, 1, 1), "no layer rule"),
    "ids by frequency": (nn.Embedding(2, 2, scale_grad_by_freq=True), "scale_grad"),
    "rewritten rows": (nn.Embedding(2, 2, max_norm=1.0), "max_norm"),
    "weight norm": (weight_norm(nn.Linear(2, 2)).parametrizations.weight, "no layer"),
}


def test_a_subclass_with_the_same_forward_uses_its_parents_rule():
    assert rule_for(SameForward(2, 2)) is RULES[nn.Linear]


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_the_others_are_refused_by_name_with_the_reason(case):
    layer, reason = case
    with pytest.raises(UnsupportedModuleError, match=reason) as caught:
        rule_for(layer, "body.2")
    assert f"body.2 ({type(layer).__name__})" in str(caught.value)


def test_the_refusal_lists_the_rules_there_are():
    with pytest.raises(UnsupportedModuleError) as caught:
        rule_for(nn.PReLU())
    assert all(kind.__name__ in str(caught.value) for kind in RULES)
