"""Layers without positions are measured together, to the bit as each alone."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.engines.base import added_by_unit
from dpsgd_explorer.dp.engines.call_groups import OuterProducts, SingleCall, grouped
from dpsgd_explorer.dp.engines.layer_calls import (
    GradientTarget,
    LayerCall,
    TrainedParameters,
)
from dpsgd_explorer.dp.layers.conv_nd import ConvNdRule
from dpsgd_explorer.dp.layers.linear import LinearNorm, LinearRule

SAMPLES = 5


def call_of(unit, layer, x, rule=None):
    """Return a call whose output gradients are random."""
    names = dict(layer.named_parameters())
    rule = rule or LinearRule()
    return LayerCall(
        rule,
        layer,
        x,
        torch.randn_like(layer(x)).detach(),
        TrainedParameters({name: GradientTarget(unit, name) for name in names}, names),
        layer.weight.dtype,
        ghost=rule.ghost_norm,
        keeps=False,
    )


def norms_of(calls, scale=1.0):
    """Return {unit: squared norms} of calls in parts."""
    return added_by_unit(
        term for part in grouped(calls, scale) for term in part.norm_terms()
    )


def gradient_norms(call):
    found = call.materialize().values()
    return sum(g.double().flatten(1).square().sum(1) for g in found)


def calls():
    torch.manual_seed(3)
    wide = nn.Linear(1500, 2)  # its length is added in blocks
    long = nn.Linear(3, 4)
    return [
        call_of("small", nn.Linear(3, 4), torch.randn(SAMPLES, 3)),
        call_of("wide", wide, torch.randn(SAMPLES, 1500)),
        call_of("one", nn.Linear(3, 2), torch.randn(SAMPLES, 1, 3)),
        call_of("long", long, torch.randn(SAMPLES, 6, 3)),
        call_of("bare", nn.Linear(3, 4, bias=False), torch.randn(SAMPLES, 3)),
        call_of(
            "double",
            nn.Linear(3, 4).double(),
            torch.randn(SAMPLES, 3, dtype=torch.float64),
        ),
        call_of("huge", nn.Linear(2, 2), 1e18 * torch.randn(SAMPLES, 2)),
        call_of("map", nn.Conv2d(1, 2, 3), torch.randn(SAMPLES, 1, 4, 4), ConvNdRule()),
    ]


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_norms_are_those_of_each_layer_alone(scale):
    together = norms_of(calls(), scale)
    for call in calls():
        ((unit, alone),) = SingleCall([call]).norm_terms()
        # The scale is multiplied before or after the one rounding of the norm.
        near = 0 if scale == 1 else 1.2e-7
        torch.testing.assert_close(together[unit], alone * scale**2, rtol=near, atol=0)
        exact = scale**2 * gradient_norms(call)
        assert (together[unit].double() >= exact * (1 - 1e-15)).all()
        torch.testing.assert_close(together[unit].double(), exact, rtol=1e-4, atol=0)


def test_layers_without_positions_are_measured_in_one():
    parts = [part for part in grouped(calls()) if isinstance(part, OuterProducts)]
    measured = [[unit for unit, _ in part.norm_terms()] for part in parts]
    assert measured == [["small", "wide", "one", "huge"], ["double"]]


class DoubledNorm(LinearNorm):
    def squared_norms(self, *given):
        return 2 * super().squared_norms(*given)


class Doubled(LinearRule):
    """A user's rule, with norms of its own."""

    ghost_norm = DoubledNorm()


def test_a_rule_with_norms_of_its_own_is_asked_for_them():
    layer, x = nn.Linear(3, 4), torch.randn(SAMPLES, 3)
    torch.manual_seed(1)
    (usual,) = norms_of([call_of("a", layer, x)]).values()
    torch.manual_seed(1)
    (own,) = norms_of([call_of("a", layer, x, Doubled())]).values()
    torch.testing.assert_close(own, 2 * usual, rtol=0, atol=0)


def test_two_calls_of_one_unit_are_added():
    first = calls()[0]
    other = nn.Linear(3, 2)
    second = call_of("small", other, torch.randn(SAMPLES, 3))
    second.trained = TrainedParameters(
        {name: GradientTarget("small", f"{name}2") for name in second.trained.targets},
        second.trained.parameters,
    )
    (both,) = norms_of([first, second]).values()
    each = [gradient_norms(call) for call in (first, second)]
    torch.testing.assert_close(both.double(), sum(each), rtol=1e-4, atol=0)
