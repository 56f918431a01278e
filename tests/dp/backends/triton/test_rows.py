"""Norms and weighted sums of many gradients at once, and sums of layer norms."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dpsgd_explorer.dp.backends.triton import rows
from dpsgd_explorer.dp.backends.triton.backend import NORM_MARGIN
from tests.dp.backends.triton.device import DEVICE, taken_for_an_accelerator

SHAPES = [(1,), (5,), (768,), (8191,), (8192,), (8193,), (48, 1000), (3, 5, 7)]
SAMPLES = 6
DTYPES = pytest.mark.parametrize(
    "dtypes",
    [[torch.float32], [torch.bfloat16], [torch.float32, torch.bfloat16]],
    ids=["float32", "bfloat16", "both"],
)


@pytest.fixture(autouse=True)
def device():
    with taken_for_an_accelerator():
        yield


def gradients(dtypes, samples=SAMPLES):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(samples, *shape, generator=generator).to(DEVICE, dtype)
        for shape in SHAPES
        for dtype in dtypes
    ]


@DTYPES
def test_norms_are_exact_and_never_too_short(dtypes):
    every = gradients(dtypes)
    found = rows.squared_norms(every, NORM_MARGIN).cpu().double().numpy()
    exact = np.array(
        [g.flatten(1).double().square().sum(1).cpu().numpy() for g in every]
    )
    assert found.shape == (len(every), SAMPLES)
    assert (found >= exact).all()
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_norms_of_numbers_that_round_down_are_not_too_short():
    # Each square is 1 + 2^-23 + 2^-48, of which a sum in float32 loses most.
    row = torch.full((2, 8192 * 3), 1 + 2.0**-24 * 2, device=DEVICE)
    row[:, 0] = 2.0**12
    [found] = rows.squared_norms([row], NORM_MARGIN).cpu().double()
    exact = row.double().square().sum(1).cpu()
    assert bool((found >= exact).all())


@DTYPES
def test_weighted_sums_leave_out_what_has_no_weight(dtypes):
    every = gradients(dtypes)
    torch.manual_seed(1)
    weights = [torch.rand(SAMPLES) for _ in every]
    for place, (gradient, own) in enumerate(zip(every, weights, strict=True)):
        own[place % SAMPLES] = 0.0
        gradient[place % SAMPLES] = [torch.nan, torch.inf][place % 2]
    before = [torch.randn(g.shape[1:]) for g in every]
    totals = [total.clone().to(DEVICE) for total in before]
    rows.add_weighted_sums(every, [w.to(DEVICE) for w in weights], totals)
    for total, start, gradient, own in zip(totals, before, every, weights, strict=True):
        kept = torch.where(own.view(-1, *[1] * start.dim()) != 0, gradient.cpu(), 0.0)
        exact = start.double() + torch.einsum(
            "b...,b->...", kept.double(), own.double()
        )
        torch.testing.assert_close(total.cpu().double(), exact, rtol=1e-5, atol=1e-5)


def test_totals_may_lie_anywhere_and_nothing_beside_them_is_written():
    every = gradients([torch.bfloat16])
    sizes = [g[0].numel() + 1 for g in every]
    flat = torch.zeros(sum(sizes), device=DEVICE)
    totals = [part[:-1] for part in torch.split(flat, sizes)]
    weights = torch.ones(SAMPLES, device=DEVICE)
    rows.add_weighted_sums(every, [weights] * len(every), totals)
    ends = torch.tensor(sizes).cumsum(0) - 1
    assert flat[ends.to(DEVICE)].count_nonzero() == 0
    for total, gradient in zip(totals, every, strict=True):
        expected = gradient.float().sum(0).flatten()
        torch.testing.assert_close(total, expected, rtol=1e-5, atol=1e-5)


def test_without_samples_there_are_no_norms_and_nothing_is_added():
    every = gradients([torch.float32], samples=0)
    totals = [torch.ones(g.shape[1:], device=DEVICE) for g in every]
    weights = [torch.ones(0, device=DEVICE)] * len(every)
    rows.add_weighted_sums(every, weights, totals)
    assert rows.squared_norms(every, NORM_MARGIN).shape == (len(every), 0)
    assert all(bool((total == 1).all()) for total in totals)


@pytest.mark.parametrize("wrong", ["weights", "total"])
def test_what_is_not_float32_is_refused(wrong):
    row, weights, total = (torch.ones(n, device=DEVICE) for n in (4, 1, 4))
    if wrong == "weights":
        weights = weights.double()
    else:
        total = total.double()
    with pytest.raises(TypeError, match="must have dtype float32, got"):
        rows.add_weighted_sums([row.unsqueeze(0)], [weights], [total])


@pytest.mark.parametrize("positions", [1, 31, 33])
@pytest.mark.parametrize("entries", [1, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_a_layer_norm_are_those_of_its_formula(positions, entries, dtype):
    torch.manual_seed(0)
    x, g = (torch.randn(3, positions, entries).to(dtype) * 2 + 1 for _ in range(2))
    for centred, standardised in (
        (True, F.layer_norm(x.double(), (entries,), eps=1e-3)),
        (False, F.rms_norm(x.double(), (entries,), eps=1e-3)),
    ):
        of_weight, of_bias = rows.layer_norm_sums(
            x.to(DEVICE), g.to(DEVICE), 1e-3, centred=centred
        )
        expected = (standardised * g).sum(1), g.double().sum(1)
        for found, exact in zip((of_weight, of_bias), expected, strict=True):
            torch.testing.assert_close(
                found.cpu().double(), exact, rtol=1e-4, atol=1e-4
            )
