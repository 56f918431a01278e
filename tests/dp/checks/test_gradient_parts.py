"""Gradients of the safety check: layer by layer, the same as all at once."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.checks.gradient_parts import (
    chosen,
    differences,
    weighted_parts,
)
from dpsgd_explorer.dp.config import ENGINES
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


def totals(engine, samples, weights=(1.0, 2.0, 4.0)):
    """Return the weighted sums in parts."""
    by_unit = dict.fromkeys(engine.parameters(), torch.tensor(weights))
    return list(weighted_parts(samples, by_unit, engine.parameters()))


def materialized(samples):
    each = [one.materialize() for one in samples]
    return {name: torch.cat([one[name] for one in each]) for name in each[0]}


def test_parts_are_the_whole_and_one_layer_is_made_at_a_time(engine):
    samples = gradients_of(engine, torch.randn(SAMPLES, 4))
    parts = totals(engine, samples)
    expected = materialized(samples)
    found = {name: total for part in parts for name, total in part.items()}
    assert found.keys() == dict(engine.module.named_parameters()).keys()
    for name, total in found.items():
        weighted = torch.einsum("b,b...", torch.tensor([1.0, 2.0, 4.0]), expected[name])
        torch.testing.assert_close(total, weighted)
    one_by_one = len(samples) == 1  # microbatch has made them all before
    assert len(parts) == (2 if one_by_one else 1)


def test_passes_of_other_layers_are_compared_with_zeros(engine):
    x = torch.randn(SAMPLES, 4)
    samples = chosen(gradients_of(engine, x), range(1))
    engine.module.is_short = True
    short = chosen(gradients_of(engine, x), range(1))
    largest = materialized(samples)["1.weight"].abs().max()
    for first, second in ((samples, short), (short, samples)):
        found = list(differences(first, second, engine.parameters()))
        assert max(apart for _, apart in found) >= largest > 0
    same = list(differences(short, short, engine.parameters()))
    assert max(apart for _, apart in same) <= 1e-6 * max(entry for entry, _ in same)


def test_samples_are_chosen_by_number(engine):
    samples = gradients_of(engine, torch.randn(SAMPLES, 4))
    whole = materialized(samples)
    for rows in (range(1, 2), range(SAMPLES - 1)):
        for name, gradients in materialized(chosen(samples, rows)).items():
            torch.testing.assert_close(gradients, whole[name][list(rows)])


def test_the_largest_difference_of_a_sample_is_found(engine):
    x = torch.randn(SAMPLES, 4)
    first = chosen(gradients_of(engine, x), range(1, 2))
    second = chosen(gradients_of(engine, 1.5 * x), range(1, 2))
    found = list(differences(first, second, engine.parameters()))
    one, other = materialized(first), materialized(second)
    apart = max((one[name] - other[name]).abs().max().item() for name in one)
    assert max(a for _, a in found) == pytest.approx(apart, rel=1e-5)
    largest = max(rows.abs().max().item() for rows in one.values())
    assert max(entry for entry, _ in found) == pytest.approx(largest, rel=1e-5)


def test_a_gradient_that_is_not_finite_is_named(engine):
    samples = gradients_of(engine, torch.full((SAMPLES, 4), torch.inf))
    one = chosen(samples, range(1))
    with pytest.raises(UnsupportedModuleError, match="gradients must be finite"):
        list(differences(one, one, engine.parameters()))
