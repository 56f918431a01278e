"""One record more moves the clipped sum by C at most, whatever the record is."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpsgd_explorer.dp.config import CHOICES
from tests.dp.nets import NETS, SAMPLES, attached, backward, case, clipped_sum, step

SLACK = 1 + 1e-6
EXTREMES = [0.0, 1.0, 1e-30, 1e10, 1e30, 1e200, math.inf, -math.inf, math.nan]

seeds = st.integers(0, 2**31)
bounds = st.floats(1e-3, 1e3)
functions = st.sampled_from(sorted(CHOICES["clipping_fn"]))
engines = st.sampled_from(sorted(CHOICES["engine"]))


def difference(first, second):
    parts = [(first[name] - second[name]).flatten() for name in first]
    return torch.cat(parts).norm().item()


def sums_of_neighbours(name, seed, extreme, size, **options):
    """Return the sums of a batch and of the same with one record more."""
    net, x, y = case(name, SAMPLES + 1)
    torch.manual_seed(seed)
    if x.is_floating_point():
        x = torch.randn_like(x)
        x[size] *= extreme
    both = []
    for n in (size, size + 1):
        both.append(clipped_sum(net, x[:n], y[:n], reduction="sum", **options))
    return both


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(NETS)),
    seed=seeds,
    bound=bounds,
    extreme=st.sampled_from(EXTREMES),
    size=st.integers(0, SAMPLES),
    function=functions,
    engine=engines,
)
def test_one_more_record_moves_the_sum_by_c_at_most(
    name, seed, bound, extreme, size, function, engine
):
    options = {"max_grad_norm": bound, "clipping_fn": function, "engine": engine}
    without, together = sums_of_neighbours(name, seed, extreme, size, **options)
    moved = difference(without, together)
    assert math.isfinite(moved)
    assert moved <= bound * SLACK


@pytest.mark.parametrize("name", ["mlp", "sequence", "convolutions", "branches"])
@pytest.mark.parametrize("function", ["Abadi", "automatic"])
def test_a_huge_record_moves_it_by_all_of_c(name, function):
    without, together = sums_of_neighbours(
        name, 1, 1e6, 3, max_grad_norm=0.01, clipping_fn=function
    )
    assert difference(without, together) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_keeps_within_c(dtype, scale):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(50, 40), nn.Tanh(), nn.Linear(40, 3)).to(dtype)
    x, y = (torch.randn(1, 50) * scale).to(dtype), torch.tensor([1])
    slack = 1 + 4 * torch.finfo(dtype).eps  # private_grad is rounded to the dtype
    for _ in range(5):
        grads = clipped_sum(
            net, x, y, reduction="sum", clipping_fn="Abadi", max_grad_norm=0.1
        )
        norm = torch.cat([g.double().flatten() for g in grads.values()]).norm().item()
        assert norm <= 0.1 * slack


def test_the_sum_is_divided_by_a_public_constant():
    norms = []
    for samples in (1, 5):
        net, x, y = case("mlp", samples)
        _, optimizer = attached(
            net, clipping_fn="Abadi", max_grad_norm=1e-3, batch_size=4
        )
        step(net, optimizer, x[:1].expand(samples, -1), y[:1].expand(samples))
        norms.append(
            torch.cat([p.grad.flatten() for p in net.parameters()]).norm().item()
        )
    assert norms == pytest.approx([1e-3 / 4, 5e-3 / 4])


def test_a_sample_left_out_leaves_the_others_alone():
    net, x, y = case("mlp", 4)
    expected = clipped_sum(net, x[:3], y[:3], reduction="sum")
    x[3] = math.nan
    spoilt = clipped_sum(net, x, y, reduction="sum")
    assert difference(spoilt, expected) < 1e-12


def test_a_step_leaves_nothing_behind_for_the_next():
    net, x, y = case("mlp")
    expected = clipped_sum(net, x[:2], y[:2])
    fresh, inputs, labels = case("mlp")
    _, again = attached(fresh, learning_rate=0.0)
    for rows in (slice(0, 5), slice(0, 2)):
        backward(fresh, inputs[rows], labels[rows])
        again.step()
        last = {n: p.private_grad * 10 for n, p in fresh.named_parameters()}
        again.zero_grad()
    assert difference(last, expected) < 1e-12
