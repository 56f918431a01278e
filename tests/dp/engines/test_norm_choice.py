"""How norms are made: by layer if asked, else anew for each shape; and told."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.engines.test_engines_agree import EXACT
from tests.dp.nets import attached, case, clipped_sum


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 3)

    def forward(self, x):
        return self.head(self.norm(self.body(x)).mean(1))


def ways(engine):
    return {choice.layer: choice.norm_method for choice in engine.explain()}


def one_pass(net, steps):
    F.cross_entropy(net(torch.randn(4, steps, 64)), torch.arange(4) % 3).backward()


def test_the_way_is_chosen_anew_for_every_shape():
    net = Sequences()
    engine, _ = attached(net)
    one_pass(net, 2)
    assert ways(engine)["body.0"] == "ghost"
    one_pass(net, 400)
    assert ways(engine)["body.0"] == "instantiate"
    one_pass(net, 2)
    assert ways(engine)["body.0"] == "ghost"


def test_the_choice_is_explained():
    net = Sequences()
    engine, _ = attached(net)
    with pytest.raises(PrivacyError, match="must be attached before"):
        engine.detach() or engine.explain()
    engine, _ = attached(net)
    one_pass(net, 400)
    choices = {choice.layer: choice for choice in engine.explain()}
    assert sorted(choices) == ["body.0", "body.2", "head", "norm"]
    first = choices["body.0"]
    assert (first.kind, first.input_shapes, first.output_shape) == (
        "Linear",
        ((4, 400, 64),),
        (4, 400, 64),
    )
    assert first.multiply_adds.ghost > first.multiply_adds.instantiate
    assert choices["norm"].multiply_adds is None
    assert all(choice.reason for choice in choices.values())


def test_a_mode_may_be_given_for_each_layer():
    net = Sequences()
    engine, _ = attached(
        net, clipping_mode={"": "instantiate", "body": "MixOpt", "body.2": "ghost"}
    )
    one_pass(net, 400)
    assert ways(engine) == {
        "body.0": "instantiate",
        "body.2": "ghost",
        "norm": "instantiate",
        "head": "instantiate",
    }
    one_pass(net, 2)
    assert ways(engine)["body.0"] == "ghost"
    reasons = {choice.layer: choice.reason for choice in engine.explain()}
    assert reasons["body.2"] == "clipping_mode 'ghost'"


def test_modes_by_layer_give_the_same_update():
    net, x, y = case("convolutions")
    modes = {"0": "ghost", "3": "instantiate", "6": "MixGhostClip"}
    whole = clipped_sum(net, x, y, max_grad_norm=0.3)
    mixed = clipped_sum(net, x, y, max_grad_norm=0.3, clipping_mode=modes)
    torch.testing.assert_close(mixed, whole, **EXACT)


def test_an_unknown_mode_for_a_layer_is_refused():
    with pytest.raises(ConfigError, match="MixOpt, MixGhostClip"):
        attached(Sequences(), clipping_mode={"body": "fast"})


def test_an_engine_without_a_choice_has_nothing_to_explain():
    net = nn.Linear(4, 3)
    engine, _ = attached(net, engine="microbatch")
    F.cross_entropy(net(torch.randn(4, 4)), torch.arange(4) % 3).backward()
    assert engine.explain() == []
