"""Threads that share a compiled loop take every unit of its work once."""

from functools import partial
from pathlib import Path

import pytest
import torch

from dpsgd_explorer.dp.backends.native import (
    linear_products,
    lstm_steps,
    patch_products,
    team,
    weighted_sum,
)
from dpsgd_explorer.training.cpu.threads import threads
from tests.dp.c_sources import compiled_today, compiled_with_fault

FOLDER = Path("dpsgd_explorer/dp/backends/native")
MODULES = linear_products, lstm_steps, patch_products, weighted_sum


def sums_all(function, columns):
    """Whether columns of a sum that threads share are all added, and once."""
    numbers = weighted_sum.UNIT * columns - 5
    rows, weights = torch.randn(3, numbers), torch.rand(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted_sum, "installed", lambda: function)
        total = torch.zeros(numbers)
        weighted_sum.add_weighted_sum(rows, weights, total)
    return torch.allclose(total, weights @ rows, atol=1e-5)


def multiplies_all(function, samples, columns):
    """Whether all gradients of samples are made, and measured."""
    x = torch.randn(samples, 2, 20)
    g = torch.randn(samples, 2, linear_products.UNIT * columns - 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_products, "installed", lambda: function)
        found = linear_products.linear_gradients(x, g, bias=False)
    norms = (g.mT @ x).flatten(1).norm(dim=1)
    return torch.allclose(found.weight, g.mT @ x, atol=1e-5) and torch.allclose(
        found.squared_norms.sqrt(), norms, rtol=1e-4
    )


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch):
    monkeypatch.setattr(linear_products, "MIN_PARALLEL_PRODUCTS", 1)
    monkeypatch.setattr(weighted_sum, "MIN_PARALLEL_NUMBERS", 1)
    monkeypatch.setattr(weighted_sum, "MIN_NUMBERS", 0)


@pytest.mark.parametrize("number", [1, 2, 3, 5])
@pytest.mark.parametrize("columns", [1, 2, 3, 7])
def test_every_unit_is_taken_once(number, columns):
    summed = compiled_today(weighted_sum)
    multiplied = compiled_today(linear_products)
    with threads(number):
        assert sums_all(summed, columns)
        assert all(multiplies_all(multiplied, n, columns) for n in (1, 4))


@pytest.fixture
def two_do_not_come(monkeypatch):
    """Of the three threads of a team, one runs."""
    monkeypatch.setattr(team, "_openmp", lambda: None)
    monkeypatch.setattr(team, "team", lambda _, *table: team.Team(None, 3, *table))


@pytest.mark.usefixtures("two_do_not_come")
def test_who_comes_takes_the_units_of_who_does_not():
    assert sums_all(compiled_today(weighted_sum), 7)
    assert multiplies_all(compiled_today(linear_products), 4, 3)


FAULTS = {
    "one row alone": (
        "index < team->rows * count",
        "index < count",
    ),
    "columns of the first thread alone": (
        "unit->column = unit->first + index % count",
        "unit->column = index % count",
    ),
    "nobody helps": ("tried < team->threads", "tried < 1"),
    "a unit is taken twice": (
        "__atomic_fetch_add(taken, 1, __ATOMIC_RELAXED)",
        "(*taken)++ / 2",
    ),
}


@pytest.mark.long("mutation of every rule")
@pytest.mark.usefixtures("two_do_not_come")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_header_is_seen(fault, tmp_path):
    plant = partial(compiled_with_fault, source=FOLDER / "units.h", fault=FAULTS[fault])
    summed = plant(tmp_path / "sum", weighted_sum)
    multiplied = plant(tmp_path / "products", linear_products)
    assert not (sums_all(summed, 7) and multiplies_all(multiplied, 4, 3))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.NAME)
@pytest.mark.parametrize(
    "fault",
    [
        ("    struct team team;", "    ptrdiff_t more; struct team team;"),
        ("size_t job_bytes(", "size_t another_name("),
    ],
    ids=["another struct", "before there was one"],
)
def test_a_library_of_another_version_is_not_called(module, fault, tmp_path):
    source = FOLDER / f"{module.NAME.strip('_')}.c"
    assert compiled_with_fault(tmp_path, module, source, fault) is None
