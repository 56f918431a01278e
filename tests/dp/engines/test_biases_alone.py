"""Biases trained alone: summed when backprops arrive, and nothing else is held."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.engines.deferred_gradients import DeferredGradients
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.dp.layers.normalization import LayerNormRule
from tests.dp.nets import moved_by_a_step, watched

SAMPLES = 3


class TimeFirst(nn.Module):
    """A linear layer that sees [T, B, d]."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(4, 5)

    def forward(self, x):
        return self.map(x.transpose(0, 1)).transpose(0, 1).tanh()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        return self.attend(x, x, x, need_weights=False)[0]


class Shared(nn.Module):
    """Two maps with one bias."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.bias = self.first.bias

    def forward(self, x):
        return self.second(self.first(x).tanh())


class OneWeight(Shared):
    """Of the two maps one has a weight that is trained too."""

    also_trained = "second.weight"


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(4, 4)

    def forward(self, x):
        return self.map(self.map(x).tanh())


class SharedInput(nn.Module):
    """One input of a layer is the same for all samples, as positions are."""

    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.register_buffer("positions", torch.randn(6, 4))

    def forward(self, x):
        return self.head(x * self.scale(self.positions))


MODELS = {
    "Linear": (lambda: nn.Linear(4, 5), (4,)),
    "positions": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh()), (6, 4)),
    "samples in the second dimension": (TimeFirst, (6, 4)),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1, groups=2), (4, 7)),
    "Conv2d": (lambda: nn.Conv2d(2, 3, 3, stride=2), (2, 7, 7)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2), (2, 4, 4)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (6, 4)),
    "LayerNorm of planes": (lambda: nn.LayerNorm((6, 4)), (2, 6, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (4, 3, 3)),
    "InstanceNorm": (lambda: nn.InstanceNorm2d(4, affine=True), (4, 3, 3)),
    "attention": (Attention, (5, 4)),
    "one bias of two maps": (Shared, (6, 4)),
    "one bias, one weight": (OneWeight, (6, 4)),
    "a layer called twice": (Twice, (6, 4)),
    "an input of all samples": (SharedInput, (6, 4)),
    "two maps": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)), (6, 4)),
}


def model_of(name):
    torch.manual_seed(0)
    model, shape = MODELS[name][0](), MODELS[name][1]
    also = getattr(model, "also_trained", "")
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter_name.endswith(("bias", also or "bias")))
    return model, torch.randn(SAMPLES, *shape)


def stepped(name, engine, **options):
    """Return what a step moves, and the norms that it clipped."""
    model, x = model_of(name)

    def loss_of(model):
        out = model(x)
        weights = torch.linspace(0.5, 2.0, out[0].numel()).view(out[0].shape)
        return (out.tanh() * weights).flatten(1).sum(1).mean()

    return moved_by_a_step(model, loss_of, batch_size=SAMPLES, engine=engine, **options)


@pytest.mark.parametrize("style", ["all-layer", "layer-wise"])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_that_of_one_sample_at_a_time(name, style):
    for engine in ("hooks", "extending"):
        moved, seen = stepped(name, engine, clipping_style=style)
        alone, of_one = stepped(name, "microbatch", clipping_style=style)
        torch.testing.assert_close(moved, alone)
        torch.testing.assert_close(seen.norms, of_one.norms)
        assert seen.clipped_fraction > 0


def test_neither_inputs_nor_backprops_are_held():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.dim() == 1)
    engine = ENGINES["hooks"](model, clipping_mode="MixOpt", loss_reduction="mean")
    found: list[DeferredGradients] = []
    engine.on_gradients = found.append
    engine.start()
    x, memory = watched(SAMPLES, 50, 4)
    loss = model(x).square().flatten(1).sum(1).mean()
    del x
    assert memory() is None  # a weight's gradient would need it
    loss.backward()
    for part in found[0]._parts:
        assert part.call.backprops.shape in {(SAMPLES, 4), (SAMPLES, 3)}
        assert list(part.call.activations) == ["bias"]


def test_backprops_of_few_bits_are_added_in_more():
    """513 positions with a gradient of 1: the next bfloat16 numbers are 512 and 516."""
    layer = nn.Linear(2, 3)
    layer.weight.requires_grad_(False)
    engine = ENGINES["hooks"](layer, clipping_mode="MixOpt", loss_reduction="sum")
    found = []
    engine.on_gradients = lambda gradients: found.append(gradients.materialize())
    engine.start()
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(torch.randn(SAMPLES, 513, 2))
    assert out.dtype is torch.bfloat16
    out.flatten(1).sum(1).sum().backward()
    assert found[0]["bias"].tolist() == [[513.0] * 3] * SAMPLES


class OwnGradients(LinearRule):
    def per_sample_gradients(self, layer, activations, backprops):
        found = super().per_sample_gradients(layer, activations, backprops)
        return {name: gradient / 2 for name, gradient in found.items()}


class OwnAlone(OwnGradients):
    bias_needs_no_activations = True

    def per_sample_gradients(self, layer, activations, backprops):
        return {"bias": backprops / 2}


class OwnCost(LayerNormRule):
    small_gradients = False


def test_a_rule_with_gradients_of_its_own_is_asked_for_them():
    assert not OwnGradients.bias_needs_no_activations
    assert OwnAlone.bias_needs_no_activations
    assert OwnCost.bias_needs_no_activations
    assert rule_for(nn.Linear(2, 2)).bias_needs_no_activations
    assert not rule_for(nn.Embedding(3, 2)).bias_needs_no_activations
