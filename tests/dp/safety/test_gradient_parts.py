"""Gradients of the safety check: layer by layer, the same as all at once."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.options import ENGINES
from dpsgd_explorer.dp.safety.gradient_parts import chosen, parts_of
from dpsgd_explorer.errors import UnsupportedModuleError

SAMPLES = 3


class Branching(nn.Sequential):
    """Leaves its last layer out if it is told to."""

    is_short = False

    def forward(self, x):
        x = self[0](x)
        return x if self.is_short else self[1](x)


def gradients_of(engine, x):
    """Return the gradients of one pass as the engine hands them over."""
    found = []
    engine.on_gradients = found.append
    engine.module(x).square().mean().backward()
    return found


@pytest.fixture(params=["hooks", "microbatch"])
def engine(request):
    torch.manual_seed(0)
    module = Branching(nn.Linear(4, 5), nn.Linear(5, 5))
    made = ENGINES[request.param](module, clipping_mode="MixOpt", loss_reduction="mean")
    made.start()
    yield made
    made.stop()


def joined(parts, which=0):
    return {name: rows for part in parts for name, rows in part[which].items()}


def test_parts_are_the_whole_and_one_layer_is_made_at_a_time(engine):
    samples = gradients_of(engine, torch.randn(SAMPLES, 4))
    parts = list(parts_of(samples, parameters=engine.parameters()))
    each = [one.materialize() for one in samples]
    for name, rows in joined(parts).items():
        assert torch.equal(rows, torch.cat([one[name] for one in each]))
    assert joined(parts).keys() == dict(engine.module.named_parameters()).keys()
    one_by_one = len(samples) == 1  # microbatch has made them all before
    assert len(parts) == (2 if one_by_one else 1)


def test_passes_of_other_layers_are_compared_with_zeros(engine):
    samples = gradients_of(engine, torch.randn(SAMPLES, 4))
    engine.module.is_short = True
    fewer = gradients_of(engine, torch.randn(SAMPLES - 1, 4))
    parts = list(parts_of(samples, fewer, parameters=engine.parameters()))
    assert joined(parts)["1.weight"].abs().max() > 0
    assert torch.equal(joined(parts, 1)["1.weight"], torch.zeros(SAMPLES - 1, 5, 5))


def test_samples_are_chosen_by_number(engine):
    samples = gradients_of(engine, torch.randn(SAMPLES, 4))
    (whole,) = [joined(parts_of(samples, parameters=engine.parameters()))]
    for rows in (range(1, 2), range(SAMPLES - 1)):
        own = chosen(samples, rows)
        found = joined(parts_of(own, parameters=engine.parameters()))
        for name, gradients in found.items():
            torch.testing.assert_close(gradients, whole[name][list(rows)])


def test_a_gradient_that_is_not_finite_is_named(engine):
    samples = gradients_of(engine, torch.full((SAMPLES, 4), torch.inf))
    with pytest.raises(UnsupportedModuleError, match="gradients that are not finite"):
        list(parts_of(samples, parameters=engine.parameters()))
