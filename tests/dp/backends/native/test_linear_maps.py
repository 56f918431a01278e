"""Linear maps whose gradients are made and summed together."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.dp.backends.linear import LinearMap
from dpsgd_explorer.dp.backends.native import linear_products as products
from dpsgd_explorer.dp.backends.native import weighted_sum
from dpsgd_explorer.dp.backends.native.linear_products import LinearMaps
from dpsgd_explorer.training.cpu.threads import threads
from tests.dp.c_sources import compiled_today, compiled_with_fault

#: T, d, p and whether there is a bias.
SIZES = st.tuples(
    st.integers(0, 9),
    st.sampled_from([1, 15, 16, 17, 40]),
    st.sampled_from([1, 16, 63, 64, 65, 130]),
    st.booleans(),
)
SAMPLES = 5
SEARCH = settings(max_examples=40, deadline=None, derandomize=True)


@pytest.fixture
def todays_source(monkeypatch):
    """Take today's source, whatever is installed."""
    for module in (products, weighted_sum):
        monkeypatch.setattr(module, "installed", partial(compiled_today, module))
    monkeypatch.setattr(products, "MIN_PARALLEL_PRODUCTS", 1)
    monkeypatch.setattr(weighted_sum, "MIN_PARALLEL_NUMBERS", 1)


def drawn(sizes):
    """Return maps of random inputs and backprops."""
    torch.manual_seed(0)
    return [
        LinearMap(torch.randn(SAMPLES, t, d), torch.randn(SAMPLES, t, p), bias)
        for t, d, p, bias in sizes
    ]


def expected(own, samples):
    """Return the gradients of a map in float64, of weight and of bias if trained."""
    x, g = own.inputs[samples].double(), own.backprops[samples].double()
    return [g.mT @ x, g.sum(1)] if own.bias else [g.mT @ x]


def is_right(sizes, samples=range(SAMPLES)):
    """Whether norms and weighted sums of maps are those of the formula."""
    maps = drawn(sizes)
    rows = slice(samples.start, samples.stop)
    weights = [torch.rand(len(samples)) for _ in maps]
    wanted = [expected(own, rows) for own in maps]
    totals = [[torch.randn(g.shape[1:]) for g in own] for own in wanted]
    before = [[total.double() for total in own] for own in totals]
    made = LinearMaps(maps).products(samples)
    made.add_weighted(weights, totals)
    squares = [sum(g.flatten(1).square().sum(1) for g in own) for own in wanted]
    pairs = [(made.squared_norms.double(), torch.stack(squares))]
    for m, weight in enumerate(weights):
        for found, start, own in zip(totals[m], before[m], wanted[m], strict=True):
            sum_of_rows = torch.tensordot(weight.double(), own, 1)
            pairs.append((found.double(), start + sum_of_rows))
    return all(torch.allclose(*pair, rtol=1e-4, atol=1e-4) for pair in pairs)


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("lanes", [16, 8])
@SEARCH
@given(
    sizes=st.lists(SIZES, min_size=1, max_size=5),
    ends=st.tuples(st.integers(0, SAMPLES), st.integers(0, SAMPLES)),
)
def test_norms_and_sums_are_those_of_the_formula(sizes, ends, lanes, number):
    with pytest.MonkeyPatch.context() as patch, threads(number):
        for module in (products, weighted_sum):
            loop = compiled_today(module)
            loop = loop._replace(lanes=min(lanes, loop.lanes))
            patch.setattr(module, "installed", lambda loop=loop: loop)
        patch.setattr(products, "MIN_PARALLEL_PRODUCTS", 1)
        patch.setattr(weighted_sum, "MIN_PARALLEL_NUMBERS", 1)
        assert is_right(sizes, range(min(ends), max(ends)))


FOUR = [(3, 40, 130, True), (9, 16, 65, False), (2, 17, 64, True), (5, 1, 1, True)]


@pytest.mark.usefixtures("todays_source")
def test_a_map_gives_the_same_bits_among_others_and_alone():
    maps, second = drawn(FOUR), torch.tensor([0.0, 1.0, 0.0])
    made = LinearMaps(maps).products(range(1, 4))
    totals = [[torch.zeros(g.shape[1:]) for g in expected(m, ...)] for m in maps]
    made.add_weighted([second] * len(maps), totals)
    for number, (x, g, bias) in enumerate(maps):
        alone = products.linear_gradients(x[1:4], g[1:4], bias=bias)
        assert torch.equal(made.squared_norms[number], alone.squared_norms)
        for total, rows in zip(totals[number], alone[: 1 + bias], strict=True):
            assert torch.equal(total, rows[1])


@pytest.mark.usefixtures("todays_source")
def test_totals_that_lie_apart_are_added_to():
    maps = drawn(FOUR[:1])
    wide = torch.zeros(130, 80)  # every other column is another's
    totals = [[wide[:, ::2], torch.zeros(130)]]
    LinearMaps(maps).products(range(SAMPLES)).add_weighted(
        [torch.ones(SAMPLES)], totals
    )
    weight = expected(maps[0], ...)[0].sum(0).float()
    torch.testing.assert_close(wide[:, ::2], weight, rtol=1e-4, atol=1e-4)
    assert not wide[:, 1::2].any()


@pytest.mark.usefixtures("todays_source")
def test_without_compiled_sums_torch_adds(monkeypatch):
    monkeypatch.setattr(weighted_sum, "installed", lambda: None)
    assert is_right(FOUR)


@pytest.mark.usefixtures("todays_source")
def test_a_map_without_inputs_has_the_gradients_of_its_bias():
    g = torch.randn(2, 3, 4)
    found = products.linear_gradients(torch.randn(2, 3, 0), g, bias=True)
    assert found.weight.shape == (2, 4, 0)
    torch.testing.assert_close(found.bias, g.sum(1))


def test_a_map_without_outputs_is_not_supported():
    assert not products.is_supported(torch.randn(2, 3, 4), torch.randn(2, 3, 0))


FAULTS = {
    "the next map's columns are the first's": (
        "linear_products",
        ("map < last && map[1].column <= column", "map < last && 0"),
    ),
    "a map's columns are counted from the first's": (
        "linear_products",
        ("(unit.column - map->column) * UNIT, left", "unit.column * UNIT, left"),
    ),
    "gradients of two maps in one place": (
        "linear_products",
        ("job->samples * map->weight;", "job->samples * job->maps->weight;"),
    ),
    "the first samples are taken": (
        "linear_products",
        ("i = job->first + unit.row", "i = unit.row"),
    ),
    "norms of the first map are all": (
        "linear_products",
        ("k = job->maps[m].column; k < end", "k = 0; k < end"),
    ),
    "sums of the first gradient alone": (
        "weighted_sum",
        ("entry < last && entry[1].column <= unit.column", "entry < last && 0"),
    ),
    "a sum's columns are counted from the first's": (
        "weighted_sum",
        ("(unit.column - entry->column) * job->unit", "unit.column * job->unit"),
    ),
}


@pytest.mark.usefixtures("todays_source")
@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_compiled_sources_is_seen(fault, tmp_path, monkeypatch):
    name, planted = FAULTS[fault]
    module = {"linear_products": products, "weighted_sum": weighted_sum}[name]
    source = f"dpsgd_explorer/dp/backends/native/{name}.c"
    loop = compiled_with_fault(tmp_path, module, source, planted)
    monkeypatch.setattr(module, "installed", lambda: loop)
    assert not is_right(FOUR, range(1, 4))
