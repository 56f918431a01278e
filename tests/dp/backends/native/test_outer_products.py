"""Compiled norms and sums of outer products against exact ones; norms never short."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.dp.backends.linear import OuterProductCall, WeightedCall
from dpsgd_explorer.dp.backends.native import outer_products as module
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from tests.dp.c_sources import compiled_today, compiled_with_fault

SOURCE = "dpsgd_explorer/dp/backends/native/outer_products.c"
NATIVE = NativeBackend()
SIZES = [0, 1, 7, 8, 15, 16, 17, 127, 128, 1023, 1024, 1025, 1160]
#: (inputs, outputs) of each layer.
LAYERS = st.lists(
    st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES)), min_size=1, max_size=3
)


def drawn(samples, inputs, outputs):
    # Columns of wider tensors: rows do not follow each other.
    return OuterProductCall(
        torch.randn(samples, inputs + 3)[:, :inputs],
        torch.randn(samples, outputs + 5)[:, :outputs],
    )


def exact_norms(call):
    squares = [values.double().square().sum(1) for values in call]
    return squares[1] * (squares[0] + 1)


def are_right(functions, samples, sizes, lanes=16):
    """Whether the norms of calls of these (inputs, outputs) are."""
    torch.manual_seed(0)
    calls = [drawn(samples, *each) for each in sizes]
    functions = functions._replace(lanes=min(lanes, functions.lanes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "installed", lambda: functions)
        assert all(map(module.is_supported, calls))
        found = torch.stack(list(NATIVE.outer_product_norms(calls))).double()
    exact = torch.stack([exact_norms(call) for call in calls])
    return torch.allclose(found, exact, rtol=1e-5) and bool((found >= exact).all())


def adds_right(functions, samples, sizes, scale=3.0):
    """Whether weighted sums of such calls are added to what is there."""
    torch.manual_seed(0)
    calls, expected = [], []
    for inputs, outputs in sizes:
        x, g = drawn(samples, inputs, outputs)
        weights = torch.rand(samples)
        totals = torch.randn(outputs, inputs), torch.randn(outputs)
        calls.append(WeightedCall(OuterProductCall(x, g), weights, *totals))
        scaled = scale * weights.double().unsqueeze(1) * g
        expected += [totals[0] + scaled.mT @ x.double(), totals[1] + scaled.sum(0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "installed", lambda: functions)
        assert all(map(module.is_sum_supported, calls))
        module.add_weighted(calls, scale)
    found = [total for call in calls for total in call[2:]]
    return all(
        torch.allclose(one.double(), other, rtol=1e-5, atol=1e-4)
        for one, other in zip(found, expected, strict=True)
    )


def adds_rows(functions):
    """Whether rows are added in double."""
    rows = [torch.tensor([1e8, x]) for x in (1.0, 2.0, 3.0)]
    rows += [torch.tensor([each, 0.0]) for each in (1.0, 1.0, 1.0, 1.0, -3e8)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "installed", lambda: functions)
        roots, are_finite = NATIVE.roots_of_sums(rows)
        infinite = NATIVE.roots_of_sums([*rows, torch.tensor([1.0, torch.inf])])
        huge = NATIVE.roots_of_sums([torch.full((2,), 3e38)] * 2)
        return (
            NATIVE.sum_of(rows).tolist() == [4.0, 6.0]
            and roots.square().tolist() == pytest.approx([4.0, 6.0])
            and are_finite
            and infinite.are_finite is False
            and infinite.values.tolist() == [pytest.approx(5**0.5), torch.inf]
            and huge.are_finite is False
        )


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.integers(0, 5),
    LAYERS,
    st.sampled_from([16, 8]),
)
def test_norms_are_exact_and_never_short(samples, sizes, lanes):
    assert are_right(compiled_today(module), samples, sizes, lanes)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.integers(0, 5),
    LAYERS,
)
def test_weighted_sums_are_added_to_what_is_there(samples, sizes):
    assert adds_right(compiled_today(module), samples, sizes)


def test_norms_of_layers_are_added_in_double():
    assert adds_rows(compiled_today(module))


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e30])
def test_what_is_no_finite_norm_is_none_of_one(value):
    x, g = drawn(3, 40, 2)
    x = x.contiguous()
    x[1, 33] = value
    [found] = NATIVE.outer_product_norms([OuterProductCall(x, g)])
    assert torch.isfinite(found).tolist() == [True, False, True]


@pytest.mark.parametrize(
    "x", [torch.ones(2, 3).double(), torch.ones(3, 2).mT], ids=["float64", "columns"]
)
def test_other_values_are_left_to_torch(x):
    g = torch.ones(2, 4, dtype=x.dtype)
    assert not module.is_supported(OuterProductCall(x, g))
    [found] = NATIVE.outer_product_norms([OuterProductCall(x, g)])
    assert found.tolist() == pytest.approx([4 * (3 + 1)] * 2)


@pytest.mark.parametrize(
    "given",
    [
        {"weights": torch.ones(2).double()},
        {"weights": torch.ones(3)},
        {"weights": torch.ones(4)[::2]},
        {"weight": torch.ones(4, 5)},
        {"weight": torch.ones(3, 4).mT},
        {"bias": torch.ones(5)},
        {"bias": torch.ones(8)[::2]},
        {"bias": torch.ones(4).double()},
    ],
    ids=lambda given: " ".join(f"{k} {v.dtype} {v.shape}" for k, v in given.items()),
)
def test_other_sums_are_left_to_torch(given):
    usual = WeightedCall(
        OuterProductCall(torch.ones(2, 3), torch.ones(2, 4)),
        torch.ones(2),
        torch.ones(4, 3),
        torch.ones(4),
    )
    assert module.is_sum_supported(usual)
    assert not module.is_sum_supported(usual._replace(**given))


@pytest.mark.parametrize(
    "rows",
    [
        [torch.ones(2).double()] * 2,
        [torch.ones(4)[::2]] * 2,
        [torch.ones(2, 2)] * 2,
        [torch.ones(2), torch.ones(3)],
    ],
    ids=["float64", "columns", "matrices", "lengths"],
)
def test_other_rows_are_left_to_torch(rows):
    assert module.add_rows(rows) is None


def test_without_a_compiler_torch_measures(monkeypatch):
    call = drawn(4, 30, 20)
    [compiled] = NATIVE.outer_product_norms([call], 3.0)
    monkeypatch.setattr(module, "installed", lambda: None)
    [by_torch] = NATIVE.outer_product_norms([call], 3.0)
    torch.testing.assert_close(by_torch, compiled)


FAULTS = {
    "rows of the inputs are one": ("x += call->x_row,", "x += 0,"),
    "rows of the backprops are one": ("g += call->g_row)", "g += 0)"),
    "the bias is left out": (
        "(squares(x, call->inputs) + 1)",
        "squares(x, call->inputs)",
    ),
    "what is left over": ("k < n; k++) total", "k < n - 1; k++) total"),
    "vectors that are left over": (
        "for (; left > 0; left--",
        "for (; left > 1; left--",
    ),
    "the last block alone": ("all += __builtin", "all = __builtin"),
    "the first of the sums alone": ("v = 1; v < VECTORS", "v = 2; v < VECTORS"),
    "the lengthening": ("* factor", ""),
    "norms of one call alone": ("*norms++", "*norms"),
    "weights of the first sample": ("sum->weights[i]", "sum->weights[0]"),
    "the scale": ("sum->weights[i] * scale", "sum->weights[i]"),
    "gradients of the first sample": ("call->g + i * call->g_row", "call->g"),
    "inputs of the first sample": ("call->x + i * call->x_row", "call->x"),
    "a bias of unscaled gradients": ("bias[o] += scaled[o]", "bias[o] += g[o]"),
    "a bias of few": ("bias[o] += scaled;", ""),
    "a weight of unscaled gradients": ("+= scaled * x[k]", "+= g[o] * x[k]"),
    "a sum in its place": ("row[k] += scaled", "row[k] = scaled"),
    "rows added in float": (
        "double total = 0;\n        for",
        "float total = 0;\n        for",
    ),
    "what is not finite": ("finite &= ", "finite |= "),
    "roots of all": ("roots ? sqrtf(sum) : sum", "sqrtf(sum)"),
    "the last row": ("k < count; k++) total", "k < count - 1; k++) total"),
}


@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_compiled_source_is_seen(fault, tmp_path):
    functions = compiled_with_fault(tmp_path, module, SOURCE, FAULTS[fault])
    sizes = [(1300, 1300), (31, 41)]
    norms = [are_right(functions, 9, sizes, lanes) for lanes in (16, 8)]
    sums = [adds_right(functions, 9, sizes), adds_right(functions, 3, [(5, 7)])]
    assert not all([*norms, *sums, adds_rows(functions)])
