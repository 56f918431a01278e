"""The compiled norms of outer products against exact ones, and never below them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.dp.kernels import outer_norms as module
from dpsgd_explorer.dp.layers.single_position import SinglePosition, squared_norms
from tests.dp.c_sources import compiled_today, compiled_with_fault

SOURCE = "dpsgd_explorer/dp/kernels/outer_norms.c"
SIZES = [0, 1, 7, 8, 15, 16, 17, 127, 128, 1023, 1024, 1025, 1160]


def drawn(samples, inputs, outputs):
    torch.manual_seed(0)
    # Columns of wider tensors: rows do not follow each other.
    return (
        torch.randn(samples, inputs + 3)[:, :inputs],
        torch.randn(samples, outputs + 5)[:, :outputs],
    )


def is_right(loop, samples, inputs, outputs, lanes=16):
    x, g = drawn(samples, inputs, outputs)
    loop = loop._replace(lanes=min(lanes, loop.lanes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "installed", lambda: loop)
        assert module.serves(x, g)
        [found] = squared_norms([SinglePosition(x, g)])
    squares = x.double().square().sum(1), g.double().square().sum(1)
    exact = squares[1] * (squares[0] + 1)
    return torch.allclose(found.double(), exact, rtol=1e-5) and bool(
        (found.double() >= exact).all()
    )


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.integers(0, 5),
    st.sampled_from(SIZES),
    st.sampled_from(SIZES),
    st.sampled_from([16, 8]),
)
def test_norms_are_exact_and_never_short(samples, inputs, outputs, lanes):
    assert is_right(compiled_today(module), samples, inputs, outputs, lanes)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e30])
def test_what_is_no_finite_norm_is_none_of_one(value):
    x, g = drawn(3, 40, 2)
    x = x.contiguous()
    x[1, 33] = value
    [found] = squared_norms([SinglePosition(x, g)])
    assert torch.isfinite(found).tolist() == [True, False, True]


@pytest.mark.parametrize(
    "x", [torch.ones(2, 3).double(), torch.ones(3, 2).mT], ids=["float64", "columns"]
)
def test_other_values_are_left_to_torch(x):
    g = torch.ones(2, 4, dtype=x.dtype)
    assert not module.serves(x, g)
    [found] = squared_norms([SinglePosition(x, g)])
    assert found.tolist() == pytest.approx([4 * (3 + 1)] * 2)


def test_without_a_compiler_torch_measures(monkeypatch):
    x, g = drawn(4, 30, 20)
    [compiled] = squared_norms([SinglePosition(x, g)], 3.0)
    monkeypatch.setattr(module, "installed", lambda: None)
    [by_torch] = squared_norms([SinglePosition(x, g)], 3.0)
    torch.testing.assert_close(by_torch, compiled)


FAULTS = {
    "rows of the inputs are one": ("x += x_row,", "x += 0,"),
    "rows of the backprops are one": ("g += g_row)", "g += 0)"),
    "the bias is left out": ("(squares(x, inputs) + 1)", "squares(x, inputs)"),
    "what is left over": ("k < n; k++) total", "k < n - 1; k++) total"),
    "vectors that are left over": (
        "for (; left > 0; left--",
        "for (; left > 1; left--",
    ),
    "the last block alone": ("all += __builtin", "all = __builtin"),
    "the first of the sums alone": ("v = 1; v < VECTORS", "v = 2; v < VECTORS"),
    "the lengthening": ("* longer", ""),
}


@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_compiled_source_is_seen(fault, tmp_path):
    loop = compiled_with_fault(tmp_path, module, SOURCE, FAULTS[fault])
    sizes = [(9, 1300, 1300), (200, 31, 41)]
    assert not all(is_right(loop, *each, lanes) for each in sizes for lanes in (16, 8))
