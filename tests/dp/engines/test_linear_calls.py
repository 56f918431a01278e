"""Linear layers whose gradients are made together: as each by itself."""

from functools import partial

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.backends import torch as torch_backend
from dpsgd_explorer.dp.backends import using
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.engines import deferred_gradients
from dpsgd_explorer.dp.engines.deferred_gradients import DeferredGradients
from dpsgd_explorer.dp.engines.joined_calls import LinearCalls, joined
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.dp.layers.recurrent_gates import GatesRule
from dpsgd_explorer.dp.layers.rewrite import LayerPart
from tests.dp.nets import moved_by_a_step

SAMPLES = 7
#: Calls of ``net`` that are linear maps: attention has two, LSTM and GRU one each.
LINEAR = 8


@pytest.fixture(autouse=True)
def backend():
    """The backend that joins linear maps."""
    with using(NativeBackend()) as made:
        yield made


class Recurrent(nn.Module):
    """Attention, whose queries, keys and values are rows of one weight; then gates."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.first, self.last = nn.Linear(8, 8, bias=False), nn.Linear(8, 20)
        self.lstm = nn.LSTM(20, 5, batch_first=True)
        self.gru = nn.GRU(5, 3, bias=False, batch_first=True)

    def forward(self, x):
        x = self.first(x).tanh()
        x = self.last(self.attend(x, x, x, need_weights=False)[0])
        return self.gru(self.lstm(x)[0])[0]


def net():
    return nn.Sequential(
        nn.Linear(8, 70), nn.Tanh(), nn.LayerNorm(70), nn.Linear(70, 8), Recurrent()
    )


def gradients_of(model, x, **options):
    """Return the groups of a pass, all gradients instantiated."""
    options = {"clipping_mode": "instantiate", "loss_reduction": "mean"} | options
    engine = ENGINES["hooks"](model, **options)
    found: list[DeferredGradients] = []
    engine.on_gradients = found.append
    engine.start()
    loss_of(model, x).backward()
    return engine, found[0]


def drawn():
    torch.manual_seed(0)
    return net(), torch.randn(SAMPLES, 6, 8)


def loss_of(model, x):
    return model(x).square().flatten(1).sum(1).mean()


def moved(**options):
    model, x = drawn()
    options = {"clipping_mode": "instantiate", "max_grad_norm": 0.3} | options
    loss = partial(loss_of, x=x)
    return moved_by_a_step(model, loss, batch_size=SAMPLES, **options)


#: The whole batch in a piece, some samples, or one.
CHUNKS = [2**24, 30_000, 1]
STYLES = ["all-layer", "layer-wise", "param-wise"]
#: Both engines deliver one kind of object: each meets every style and every chunk size.
MET = [
    (chunk, style, ["hooks", "extending"][(i + j) % 2])
    for i, chunk in enumerate(CHUNKS)
    for j, style in enumerate(STYLES)
]


@pytest.mark.parametrize(("chunk", "style", "engine"), MET)
def test_a_step_is_that_of_one_layer_after_the_other(chunk, style, engine, monkeypatch):
    monkeypatch.setattr(torch_backend, "CHUNK_BYTES", chunk)
    made, seen = moved(engine=engine, clipping_style=style)
    monkeypatch.setattr(deferred_gradients, "joined", lambda parts, scale: parts)
    alone, of_one = moved(engine=engine, clipping_style=style)
    torch.testing.assert_close(made, alone)
    torch.testing.assert_close(seen.norms, of_one.norms)
    assert seen.clipped_fraction > 0


def test_they_are_one_group():
    _, gradients = gradients_of(*drawn())
    parts = joined(gradients._parts, 1.0)
    (linear,) = (part for part in parts if isinstance(part, LinearCalls))
    assert len(linear._calls) == LINEAR
    assert len(parts) == len(gradients._parts) - LINEAR + 1


@pytest.mark.parametrize("mode", ["ghost", "MixGhostClip"])
def test_what_has_ghost_norms_or_keeps_no_gradients_stays_alone(mode):
    _, gradients = gradients_of(*drawn(), clipping_mode=mode)
    parts = joined(gradients._parts, 1.0)
    assert not any(isinstance(part, LinearCalls) for part in parts)


INDICES = {
    "a slice": [slice(2, 6)],
    "of a slice": [slice(1, 6), slice(1, 3)],
    "some": [torch.tensor([0, 3, 6])],
    "some of a slice": [slice(2, 7), torch.tensor([4, 0])],
    "every other": [slice(None, None, 2)],
    "none": [slice(3, 3)],
}


@pytest.mark.parametrize("name", INDICES)
def test_some_of_the_samples(name):
    _, gradients = gradients_of(*drawn())
    parts = joined(gradients._parts, gradients._scale)
    taken, alone = gradients._of(parts), gradients
    for index in INDICES[name]:
        taken, alone = taken.take(index), alone.take(index)
    assert len(taken) == len(alone)
    for key, gradient in alone.materialize().items():
        assert torch.equal(taken.materialize()[key], gradient)
    norms, expected = taken.squared_norms(), alone.squared_norms()
    assert norms.keys() == expected.keys()
    for unit, own in norms.items():
        torch.testing.assert_close(own, expected[unit])


def test_a_sample_that_is_not_finite_adds_nothing():
    found = []
    for engine, mode in (("hooks", "instantiate"), ("microbatch", "MixOpt")):
        model, x = drawn()
        x[3, 2, 1] = float("nan")
        made, seen = moved_by_a_step(
            model,
            partial(loss_of, x=x),
            batch_size=SAMPLES,
            engine=engine,
            clipping_mode=mode,
        )
        assert seen.non_finite == 1
        found.append(made)
    torch.testing.assert_close(*found)


class Halved(LinearRule):
    def per_sample_gradients(self, layer, activations, backprops):
        found = super().per_sample_gradients(layer, activations, backprops)
        return {name: gradient / 2 for name, gradient in found.items()}


def test_a_rule_of_ones_own_is_asked():
    x, g = torch.randn(3, 4, 8), torch.randn(3, 4, 5)
    layer = nn.Linear(8, 5)
    assert LinearRule().linear_form(layer, x, g).keys() == {""}
    assert not Halved().linear_form(layer, x, g)
    layer.weight.requires_grad_(False)
    assert not LinearRule().linear_form(layer, x, g)
    assert not LinearRule().linear_form(layer, x.double(), g.double())


class HalvedGates(GatesRule):
    def measured_gradients(self, layer, activations, backprops):
        return super().measured_gradients(layer, activations, backprops)


def test_gates_of_which_a_weight_is_frozen_stay_alone():
    lstm = nn.LSTM(6, 2)
    part = LayerPart(lstm, {n: f"{n}_l0" for n in GatesRule.parameter_names})
    call = (torch.randn(3, 4, 6), torch.randn(3, 4, 2)), torch.randn(3, 4, 8)
    assert GatesRule().linear_form(part, *call).keys() == {"_ih", "_hh"}
    assert not HalvedGates().linear_form(part, *call)
    lstm.weight_hh_l0.requires_grad_(False)
    assert not GatesRule().linear_form(part, *call)
