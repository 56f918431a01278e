"""Each method of a convolution's gradients, against autograd on each sample alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpsgd_explorer.dp.backends import convolution
from dpsgd_explorer.dp.backends.convolution import Convolution, SampleGradients
from dpsgd_explorer.dp.backends.native import convolution as by_loop
from dpsgd_explorer.dp.backends.native import patch_products as products
from dpsgd_explorer.dp.backends.native import team
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.dp.backends.sample_rows import sample_rows
from dpsgd_explorer.dp.backends.torch import TorchBackend
from dpsgd_explorer.training.cpu.threads import threads
from tests.dp.c_sources import compiled_today, compiled_with_fault

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


#: Norms may be as much longer as rounding might have made them shorter.
UPPER = {"rtol": 1e-5, "atol": 0.0}


def gradients_by(method, x, g, layer, sides=()):
    """Return the gradients by one of torch's methods, or by the loop ("direct")."""
    if method == "direct" and len(x):
        return by_loop.gradients(x, g, layer, sides)
    method = "rows" if method == "direct" else method
    return SampleGradients(convolution.gradients(x, g, layer, sides, method), None)


@pytest.mark.parametrize("method", convolution.METHODS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(drawn=convolutions())
def test_each_method_gives_autograds_gradients(method, drawn):
    assert_autograds(method, drawn, torch.float64, {"rtol": 1e-10, "atol": 1e-12})


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("lanes", [16, 8])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(drawn=convolutions())
def test_the_compiled_method_gives_autograds_gradients(drawn, lanes, number):
    compiled = compiled_today(products)
    lanes = min(lanes, compiled.lanes)
    with pytest.MonkeyPatch.context() as patch, threads(number):
        patch.setattr(products, "installed", lambda: compiled._replace(lanes=lanes))
        patch.setattr(products, "MIN_PARALLEL_PRODUCTS", 1)
        assert_autograds("direct", drawn, torch.float32, {"rtol": 1e-4, "atol": 1e-5})


def sums_every_channel(compiled, outputs, lanes):
    """Whether a product with a step and several rows is that of the formula."""
    x, g = torch.randn(3, 20), torch.randn(3, outputs, 6)
    kernel = products.Kernel(rows=[0, 7], width=3, step=2, offsets=[*range(9)])
    starts = torch.tensor([0, 2, 4, 7, 9, 11])
    under = x[:, starts + torch.arange(9)[:, None]].double()  # [B, K, T]
    compiled = compiled._replace(lanes=min(lanes, compiled.lanes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "installed", lambda: compiled)
        found, squares = products.patch_products(x, g, kernel)
    expected = under @ g.double().mT
    is_right = torch.allclose(found, expected.float(), 1e-5, 1e-6)
    return is_right and torch.allclose(squares, expected.square().sum((1, 2)), 1e-5)


@pytest.mark.parametrize("lanes", [16, 8])
@pytest.mark.parametrize("outputs", [8, 24, 40, 56])
def test_every_output_channel_of_a_compiled_product_is_summed(outputs, lanes):
    assert sums_every_channel(compiled_today(products), outputs, lanes)


SOURCE = "dpsgd_explorer/dp/backends/native/patch_products.c"
FAULTS = {
    "the step is left out": ("entry[k][i * step]", "entry[k][i]"),
    "rows begin where the first does": ("x + row[r] +", "x + row[0] +"),
    "every entry is the first": ("offset[k < left ? k : left - 1]", "offset[0]"),
    "positions are left out": (
        "positions - t < BLOCK ? positions - t : BLOCK",
        "BLOCK / 4",
    ),
    "samples share their entries": (
        "entries = job->x + i * job->entries",
        "entries = job->x",
    ),
    "one vector of a pair": ("&squares, 2);", "&squares, 1);"),
    "blocks share their channels": ("(i * job->channels + o)", "(i * job->channels)"),
    "squares of the first entry alone": (
        "sum[k][v] * sum[k][v]",
        "sum[0][v] * sum[0][v]",
    ),
    "squares of the last tile alone": ("*squares += __built", "*squares = __built"),
}


@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_compiled_source_is_seen(fault, tmp_path):
    compiled = compiled_with_fault(tmp_path, products, SOURCE, FAULTS[fault])
    assert not all(sums_every_channel(compiled, 56, lanes) for lanes in (16, 8))


@pytest.mark.parametrize("x", [torch.ones(2, 3, 5).double(), torch.ones(2, 5, 3).mT])
def test_the_compiled_product_takes_only_what_it_reads_right(x):
    kernel = products.Kernel([0], 5, 1, [0])
    with pytest.raises(ValueError, match="contiguous, float32 and on the CPU"):
        products.patch_products(x, torch.ones(2, 4, 5), kernel)


def assert_autograds(method, drawn, dtype, close):
    (kernel_size, stride, dilation), groups, batch = drawn
    layer = KINDS[len(stride)](
        4, 4, kernel_size, stride, 0, dilation, groups, bias=False
    ).to(dtype)
    x = torch.randn(batch, 4, *(9, 8, 7)[: len(stride)], dtype=dtype)
    g = torch.randn_like(layer(x))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "CACHE_BYTES", 20_000)
        patch.setattr(by_loop, "CACHE_BYTES", 20_000)
        settings = Convolution(layer.kernel_size, layer.stride, layer.dilation, groups)
        found = gradients_by(method, x, g, settings)
    expected = [
        torch.autograd.grad(layer(x[i : i + 1]), layer.weight, g[i : i + 1])[0]
        for i in range(batch)
    ]
    assert found.values.shape == (batch, *layer.weight.shape)
    for own, reference in zip(found.values, expected, strict=True):
        torch.testing.assert_close(own, reference, **close)
    if found.squared_norms is not None:
        squares = found.values.double().flatten(1).square().sum(1)
        assert (found.squared_norms >= squares).all()
        torch.testing.assert_close(found.squared_norms.double(), squares, **UPPER)


@pytest.mark.parametrize(
    ("expected", "positions", "kernel_size", "depth", "groups"),
    [
        ("patches", 196, (8, 8), 1, 1),
        ("patches", 1024, (3, 3), 3, 1),  # many, and a kernel row of 9 columns
        ("rows", 1024, (3, 3), 32, 1),
        ("rows", 4096, (5,), 1, 1),  # in one dimension rows are slices
        ("grouped", 1024, (3, 3), 1, 32),
        ("rows", 256, (1, 1), 64, 1),  # patches are the entries themselves
    ],
)
def test_a_method_is_estimated(expected, positions, kernel_size, depth, groups):
    shape = positions, kernel_size, depth, groups
    assert convolution.estimated_method(*shape) == expected


@pytest.mark.parametrize(
    ("expected", "outputs", "kernel_size", "groups", "dtype"),
    [
        (True, 32, (3, 3), 1, torch.float32),
        (True, 16, (5,), 1, torch.float32),
        (False, 32, (3, 3), 32, torch.float32),  # most of a vector would be empty
        (False, 128, (1, 1), 1, torch.float32),  # patches are the entries themselves
        (False, 32, (3, 3), 1, torch.float64),
    ],
)
def test_the_loop_takes_what_it_is_quickest_for(
    expected, outputs, kernel_size, groups, dtype, monkeypatch
):
    monkeypatch.setattr(products, "installed", lambda: compiled_today(products))
    ones = (1,) * len(kernel_size)
    layer = Convolution(kernel_size, ones, ones, groups)
    x = torch.ones(2, 32, *[9] * len(kernel_size), dtype=dtype)
    g = torch.ones(2, outputs, *[10 - k for k in kernel_size], dtype=dtype)
    found = NativeBackend().convolution_gradients(x, g, layer)
    assert (found.squared_norms is not None) == expected
    by_torch = TorchBackend().convolution_gradients(x, g, layer)
    torch.testing.assert_close(found.values, by_torch.values)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (1, 2, 0, 3)])
def test_rows_and_sums_do_not_depend_on_the_order_in_memory(order, samples):
    torch.manual_seed(0)
    gradient = torch.randn(2, 3, 4, 5, dtype=torch.float64).permute(order)[:samples]
    weights = torch.rand(len(gradient), dtype=torch.float64)
    total = torch.ones(gradient.shape[1:], dtype=torch.float64)
    TorchBackend().add_weighted([gradient], [weights], [total])
    torch.testing.assert_close(total, 1 + torch.tensordot(weights, gradient, 1))
    norms = torch.linalg.vector_norm(sample_rows(gradient), dim=1)
    torch.testing.assert_close(norms.square(), gradient.square().sum((1, 2, 3)))


def test_a_gradient_in_another_order_is_not_copied():
    gradient = torch.randn(2, 3, 4, 5).permute(0, 2, 3, 1)
    assert sample_rows(gradient).data_ptr() == gradient.data_ptr()


@pytest.mark.parametrize("starts", [True, False])
def test_neither_threads_nor_their_absence_change_a_bit(starts, monkeypatch):
    compiled = compiled_today(products)
    monkeypatch.setattr(products, "installed", lambda: compiled)
    monkeypatch.setattr(products, "MIN_PARALLEL_PRODUCTS", 1)
    if not starts:
        monkeypatch.setattr(team, "_openmp", lambda: None)
    x, g = torch.randn(40, 3, 9, 9), torch.randn(40, 24, 7, 7)
    layer = Convolution((3, 3), (1, 1), (1, 1), 1)
    found = []
    for count in (1, 3):
        with threads(count):
            found.append(by_loop.gradients(x, g, layer, ()))
    for one, three in zip(*found, strict=True):
        assert torch.equal(one, three)


@pytest.mark.parametrize("method", [*convolution.METHODS, "direct"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("cache", [500, 2000, 10**6])
def test_zeros_around_a_sample_are_those_of_a_padded_copy(
    method, groups, order, cache, monkeypatch
):
    monkeypatch.setattr(products, "installed", lambda: compiled_today(products))
    for module in (convolution, by_loop):
        monkeypatch.setattr(module, "CACHE_BYTES", cache)
    torch.manual_seed(0)
    x, g, sides = torch.randn(7, 4, 5, 6), torch.randn(7, 18, 6, 9), (1, 4, 0, 3)
    layer = Convolution((3, 3), (1, 1), (1, 1), groups)
    x = x.to(memory_format=order)
    found = gradients_by(method, x, g, layer, sides)
    padded = torch.nn.functional.pad(x, sides)
    expected = gradients_by(method, padded, g, layer)
    assert torch.equal(found.values, expected.values)
    if method == "direct":
        assert torch.equal(found.squared_norms, expected.squared_norms)
