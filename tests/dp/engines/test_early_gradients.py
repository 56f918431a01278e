"""Small gradients are made when backprops arrive; inputs and backprops are let go."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.engines.deferred_gradients import DeferredGradients
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.layers.linear import LinearNorm
from dpsgd_explorer.dp.layers.normalization import GroupNormRule, LayerNormRule
from dpsgd_explorer.errors import PrivacyError
from tests.dp.nets import moved_by_a_step, watched

SAMPLES = 3
LAYERS = {
    "LayerNorm": (nn.LayerNorm(4), (6, 4)),
    "RMSNorm": (nn.RMSNorm(4), (6, 4)),
    "GroupNorm": (nn.GroupNorm(2, 4), (4, 3, 3)),
    "InstanceNorm2d": (nn.InstanceNorm2d(4, affine=True), (4, 3, 3)),
    "PReLU": (nn.PReLU(4), (4, 6)),
}


def engine_of(module, **options):
    options = {"clipping_mode": "MixOpt", "loss_reduction": "mean"} | options
    engine = ENGINES["hooks"](module, **options)
    found: list[DeferredGradients] = []
    engine.on_gradients = found.append
    engine.start()
    return engine, found


class InPlace(nn.Module):
    """Adds to the input of a layer, in place, after the layer has used it."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        x = x.clone()
        out = self.norm(x)
        with torch.no_grad():
            x.add_(1.0)
        return out


@pytest.mark.parametrize("name", LAYERS)
def test_inputs_and_backprops_are_let_go(name):
    layer, shape = LAYERS[name]
    head = nn.Conv1d(4, 4, 1) if name == "PReLU" else nn.Identity()
    engine, found = engine_of(nn.Sequential(layer, head))
    x, memory = watched(SAMPLES, *shape)
    loss = engine.module(x).square().flatten(1).sum(1).mean()
    del x
    assert memory() is not None  # a weight's gradient needs it
    loss.backward()
    del loss
    assert memory() is None
    call = found[0]._parts[-1].call
    for local, gradient in call.activations.items():
        assert gradient.shape == (SAMPLES, *layer.get_parameter(local).shape)
    assert call.backprops is call.activations["weight"]


@pytest.mark.parametrize("name", LAYERS)
def test_an_input_that_was_changed_in_place_is_refused(name):
    layer, shape = LAYERS[name]
    engine, _ = engine_of(InPlace(layer))
    out = engine.module(torch.randn(SAMPLES, *shape))
    with pytest.raises(PrivacyError, match="changed in place"):
        out.flatten(1).sum(1).mean().backward()


def test_a_parameter_that_is_frozen_in_between_is_refused():
    layer = nn.LayerNorm(4)
    engine, _ = engine_of(layer)
    out = engine.module(torch.randn(SAMPLES, 6, 4))
    layer.bias.requires_grad_(False)
    with pytest.raises(PrivacyError, match="Do not change requires_grad between"):
        out.flatten(1).sum(1).mean().backward()


@pytest.mark.parametrize("mode", ["MixOpt", "ghost", "instantiate", "MixGhostClip"])
def test_an_explanation_has_the_shapes_of_the_call(mode):
    engine, _ = engine_of(nn.LayerNorm(4), clipping_mode=mode)
    engine.module(torch.randn(SAMPLES, 6, 4)).flatten(1).sum(1).mean().backward()
    (choice,) = engine.explain()
    assert choice.kind == "LayerNorm"
    assert choice.input_shapes == ((SAMPLES, 6, 4),)
    assert choice.output_shape == (SAMPLES, 6, 4)


def moved(engine, again):
    """Return what a step moves of a model whose middle may be run again in backward."""
    torch.manual_seed(0)
    middle = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.Tanh(), nn.RMSNorm(4))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.middle = nn.Linear(4, 4), middle

        def forward(self, x):
            x = self.first(x)
            return checkpoint(self.middle, x, use_reentrant=False) if again else x

    model = Net() if again else nn.Sequential(nn.Linear(4, 4), middle)
    x = torch.linspace(-1, 1, SAMPLES * 24).view(SAMPLES, 6, 4)
    return moved_by_a_step(
        model,
        lambda model: model(x).square().flatten(1).sum(1).mean(),
        batch_size=SAMPLES,
        engine=engine,
    )[0]


def test_a_checkpointed_part_gives_the_same_step():
    alone = moved("microbatch", again=False)
    torch.testing.assert_close(moved("hooks", again=False), alone)
    torch.testing.assert_close(moved("hooks", again=True), alone)
    torch.testing.assert_close(moved("extending", again=True), alone)


@pytest.mark.parametrize("engine", ["hooks", "extending"])
def test_gradients_of_few_bits_are_made_in_more(engine):
    """513 positions with a gradient of 1: the next bfloat16 numbers are 512 and 516."""
    layer = nn.GroupNorm(1, 3)
    own = ENGINES[engine](layer, clipping_mode="MixOpt", loss_reduction="sum")
    found = []
    own.on_gradients = lambda gradients: found.append(gradients.materialize())
    own.start()
    x = torch.randn(SAMPLES, 3, 513, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    out.backward(torch.ones_like(out))
    assert found[0]["bias"].tolist() == [[513.0] * 3] * SAMPLES
    assert found[0]["weight"].dtype is torch.float32


class OwnNorms(LayerNormRule):
    ghost_norm = LinearNorm()


class OwnGradients(GroupNormRule):
    def per_sample_gradients(self, layer, activations, backprops):
        found = super().per_sample_gradients(layer, activations, backprops)
        return {name: gradient / 2 for name, gradient in found.items()}


class Held(GroupNormRule):
    small_gradients = False


def test_a_rule_with_norms_of_its_own_is_asked_for_them():
    assert not OwnNorms().computes_early()
    assert OwnGradients().computes_early()  # it is asked for its gradients, early
    assert not Held().computes_early()
    assert all(rule_for(layer).computes_early() for layer, _ in LAYERS.values())
    assert not rule_for(nn.Linear(2, 2)).computes_early()
