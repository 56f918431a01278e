"""Gradients of linear maps, sample by sample: compiled, and by torch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpsgd_explorer.dp.backends import backend_on
from dpsgd_explorer.dp.backends.native import linear_products as products
from dpsgd_explorer.dp.layers.conv_nd import ConvNdRule
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.dp.layers.recurrent_gates import GatesRule
from dpsgd_explorer.dp.layers.rewrite import LayerPart
from dpsgd_explorer.training.cpu.threads import threads
from tests.dp.c_sources import compiled_today, compiled_with_fault

linear_gradients = backend_on("cpu").linear_gradients
#: B, T, d and p: none, one, just below, at and above a vector, a panel and a unit.
SIZES = st.tuples(
    st.integers(0, 4),
    st.integers(0, 20),
    st.sampled_from([1, 7, 8, 15, 16, 17, 33, 48]),
    st.sampled_from([1, 3, 4, 15, 16, 17, 63, 64, 65, 130]),
)
#: As the tensors of attention lie, where positions come first.
ORDERS = {"samples first": False, "positions first": True}


@pytest.fixture
def compiled(monkeypatch):
    """Take today's source, whatever is installed."""
    monkeypatch.setattr(products, "installed", lambda: compiled_today(products))


def drawn(batch, positions, inputs, outputs, *, turned=False):
    """Return inputs and backprops, [B, T, d] and [B, T, p]."""
    torch.manual_seed(0)
    first = (positions, batch) if turned else (batch, positions)
    x, g = torch.randn(*first, inputs), torch.randn(*first, outputs)
    return (x.transpose(0, 1), g.transpose(0, 1)) if turned else (x, g)


def is_right(loop, sizes, lanes, *, turned=False):
    """Whether values and norms are those of the formula in twice the precision."""
    x, g = drawn(*sizes, turned=turned)
    lanes = min(lanes, loop.lanes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "installed", lambda: loop._replace(lanes=lanes))
        found = linear_gradients(x, g, weight=True, bias=True)
    weight = (g.double().mT @ x.double()).float()
    close = {"rtol": 1e-4, "atol": 1e-5}
    squares = sum(v.double().flatten(1).square().sum(1) for v in found.named().values())
    return (
        torch.allclose(found.weight, weight, **close)
        and torch.allclose(found.bias, g.double().sum(1).float(), **close)
        and bool((found.squared_norms >= squares).all())
        and torch.allclose(found.squared_norms.double(), squares, rtol=1e-5)
    )


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("lanes", [16, 8])
@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(sizes=SIZES)
def test_compiled_gradients_are_those_of_the_formula(sizes, order, lanes, number):
    with pytest.MonkeyPatch.context() as patch, threads(number):
        patch.setattr(products, "MIN_PARALLEL_PRODUCTS", 1)
        assert is_right(compiled_today(products), sizes, lanes, turned=ORDERS[order])


@pytest.mark.usefixtures("compiled")
def test_an_input_that_all_samples_share_is_read_where_it_lies():
    x, g = drawn(3, 5, 7, 4)
    shared = x[:1].expand(3, 5, 7)
    found = linear_gradients(shared, g, weight=True, bias=False)
    torch.testing.assert_close(found.weight, g.mT @ shared)
    assert found.bias is None


@pytest.mark.parametrize("side", ["inputs", "backprops"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
@pytest.mark.usefixtures("compiled")
def test_what_is_not_finite_stays_in_its_sample(side, value):
    x, g = drawn(3, 5, 17, 18)
    (x if side == "inputs" else g)[1, 2, 3] = value
    norms = linear_gradients(x, g, weight=True, bias=True).squared_norms
    assert torch.isfinite(norms).tolist() == [True, False, True]


@pytest.mark.usefixtures("compiled")
def test_neither_threads_nor_samples_beside_it_change_a_bit(monkeypatch):
    monkeypatch.setattr(products, "MIN_PARALLEL_PRODUCTS", 1)
    x, g = drawn(9, 21, 40, 150)
    found = []
    for count in (1, 3):
        with threads(count):
            found.append(linear_gradients(x, g, weight=True, bias=True))
    alone = linear_gradients(x[4:5], g[4:5], weight=True, bias=True)
    for one, three, fifth in zip(*found, alone, strict=True):
        assert torch.equal(one, three)
        assert torch.equal(one[4:5], fifth)


@pytest.mark.parametrize("trained", [("weight",), ("bias",), ("weight", "bias")])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_rule_gives_what_is_trained(trained, is_compiled, monkeypatch):
    found = compiled_today(products) if is_compiled else None
    monkeypatch.setattr(products, "installed", lambda: found)
    layer = nn.Linear(6, 5)
    for name, parameter in layer.named_parameters():
        parameter.requires_grad = name in trained
    x, g = drawn(4, 3, 6, 5)
    gradients, norms = LinearRule().measured_gradients(layer, x, g)
    expected = {"weight": g.mT @ x, "bias": g.sum(1)}
    assert gradients.keys() == set(trained)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name])
    squares = sum(expected[name].flatten(1).square().sum(1) for name in trained)
    torch.testing.assert_close(norms, squares, rtol=1e-5, atol=0.0)


def halved(rule):
    """Return a rule of a user's, whose gradients are half of another's."""

    class Halved(type(rule)):
        def per_sample_gradients(self, layer, activations, backprops):
            found = super().per_sample_gradients(layer, activations, backprops)
            return {name: gradient / 2 for name, gradient in found.items()}

    made = Halved.__new__(Halved)
    vars(made).update(vars(rule))
    return made


def call_of(name):
    """Return (rule, layer, activations, backprops) of a rule that makes norms."""
    lstm = nn.LSTM(6, 2)
    names = {n: f"{n}_l0" for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    x, g = drawn(4, 3, 6, 8)
    gates, steps = GatesRule(), (x, torch.randn(4, 3, 2))
    turned = x.mT.contiguous(), g.mT.contiguous()
    return {
        "Linear": (LinearRule(), nn.Linear(6, 8), x, g),
        "LSTM": (gates, LayerPart(lstm, names), steps, g),
        "Conv1d": (ConvNdRule(), nn.Conv1d(6, 8, 1), *turned),
    }[name]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", ["Linear", "LSTM", "Conv1d"])
def test_gradients_that_a_rule_of_ones_own_makes_are_the_ones_measured(name):
    rule, *call = call_of(name)
    gradients, norms = rule.measured_gradients(*call)
    own, own_norms = halved(rule).measured_gradients(*call)
    for key, gradient in gradients.items():
        torch.testing.assert_close(own[key], gradient / 2)
    torch.testing.assert_close(own_norms, norms / 4)


@pytest.mark.usefixtures("compiled")
def test_other_precisions_are_left_to_torch():
    x, g = (values.double() for values in drawn(2, 3, 4, 5))
    found = linear_gradients(x, g, weight=True, bias=True)
    assert found.squared_norms is None
    torch.testing.assert_close(found.weight, g.mT @ x)


def test_without_a_compiler_torch_makes_the_same(monkeypatch):
    monkeypatch.setattr(products, "installed", lambda: None)
    x, g = drawn(2, 3, 4, 5)
    found = linear_gradients(x, g, weight=True, bias=True)
    assert found.squared_norms is None
    torch.testing.assert_close(found.weight, g.mT @ x)
    assert linear_gradients(x, g, weight=False, bias=True).weight is None


SOURCE = "dpsgd_explorer/dp/backends/native/linear_products.c"
FAULTS = {
    "positions of a sample follow its backprops'": (
        "pack(x + k, map->x_position,",
        "pack(x + k, map->g_position,",
    ),
    "samples share their inputs": ("map->x + i * map->x_sample", "map->x"),
    "samples share their backprops": (
        "map->g + sample * map->g_sample +",
        "map->g +",
    ),
    "units share their outputs": (
        "map->g_sample + (column - map->column) * UNIT;",
        "map->g_sample;",
    ),
    "what is missing is not 0": ("k < columns ? x[k] : 0", "x[k]"),
    "every row is the first": ("sum[r][v] += rows[r] *", "sum[r][v] += rows[0] *"),
    "the last input is left out": ("left < PANEL ? left", "left < PANEL ? left - 1"),
    "the last outputs are left out": (
        "r < ROWS && o + r < outputs; r++)   ",
        "r < 1; r++)   ",
    ),
    "squares of the first row alone": (
        "square += sum[r][v] * sum[r][v]",
        "square += sum[0][v] * sum[0][v]",
    ),
    "squares of the last tile alone": ("*squares += __built", "*squares = __built"),
    "the bias is not measured": ("total += (double)sum[r] * sum[r]", "total += 0"),
}


@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_compiled_source_is_seen(fault, tmp_path):
    loop = compiled_with_fault(tmp_path, products, SOURCE, FAULTS[fault])
    sizes = [(3, 5, 40, 130), (3, 5, 40, 35)]
    assert not all(is_right(loop, each, lanes) for each in sizes for lanes in (16, 8))
