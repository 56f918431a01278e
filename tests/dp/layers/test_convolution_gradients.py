"""Each method of a convolution's gradients, against autograd on each sample alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpsgd_explorer.dp.layers import conv_gradients as convolution
from dpsgd_explorer.dp.layers.base import add_weighted_rows, sample_rows
from dpsgd_explorer.dp.layers.conv_gradients import convolution_gradients

KINDS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def convolutions():
    dims = st.integers(1, 3)
    sizes = dims.flatmap(
        lambda n: st.tuples(
            *(
                st.tuples(*[st.integers(1, 3)] * n)
                for _ in ("kernel_size", "stride", "dilation")
            )
        )
    )
    return st.tuples(sizes, st.sampled_from([1, 2, 4]), st.integers(0, 4))


@pytest.mark.parametrize("method", convolution.METHODS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(drawn=convolutions())
def test_each_method_gives_autograds_gradients(method, drawn):
    (kernel_size, stride, dilation), groups, batch = drawn
    layer = KINDS[len(stride)](
        4, 4, kernel_size, stride, 0, dilation, groups, bias=False
    ).double()
    x = torch.randn(batch, 4, *(9, 8, 7)[: len(stride)], dtype=torch.float64)
    g = torch.randn_like(layer(x))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "CACHE_BYTES", 20_000)
        found = convolution_gradients(
            x, g, layer.kernel_size, layer.stride, layer.dilation, groups, method
        )
    expected = [
        torch.autograd.grad(layer(x[i : i + 1]), layer.weight, g[i : i + 1])[0]
        for i in range(batch)
    ]
    assert found.shape == (batch, *layer.weight.shape)
    for own, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("expected", "positions", "kernel_size", "depth", "groups"),
    [
        ("patches", 196, (8, 8), 1, 1),
        ("patches", 1024, (3, 3), 3, 1),  # many, and a kernel row of 9 columns
        ("rows", 1024, (3, 3), 32, 1),
        ("rows", 4096, (5,), 1, 1),  # in one dimension rows are slices
        ("grouped", 1024, (3, 3), 1, 32),
    ],
)
def test_a_method_is_estimated(expected, positions, kernel_size, depth, groups):
    shape = positions, kernel_size, depth, groups
    assert convolution.estimated_method(*shape) == expected


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (1, 2, 0, 3)])
def test_rows_and_sums_do_not_depend_on_the_order_in_memory(order, samples):
    torch.manual_seed(0)
    gradient = torch.randn(2, 3, 4, 5, dtype=torch.float64).permute(order)[:samples]
    weights = torch.rand(len(gradient), dtype=torch.float64)
    total = torch.ones(gradient.shape[1:], dtype=torch.float64)
    add_weighted_rows(gradient, weights, total)
    torch.testing.assert_close(total, 1 + torch.tensordot(weights, gradient, 1))
    norms = torch.linalg.vector_norm(sample_rows(gradient), dim=1)
    torch.testing.assert_close(norms.square(), gradient.square().sum((1, 2, 3)))


def test_a_gradient_in_another_order_is_not_copied():
    gradient = torch.randn(2, 3, 4, 5).permute(0, 2, 3, 1)
    assert sample_rows(gradient).data_ptr() == gradient.data_ptr()
