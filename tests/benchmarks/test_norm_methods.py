"""The table of measured norm methods shows what was estimated and what was taken."""

import pytest
from torch import nn

from benchmarks import report
from benchmarks.engine import norm_methods
from benchmarks.record import origin
from dpsgd_explorer.dp.engines.methods.method_cache import MethodCache


@pytest.fixture
def row(monkeypatch):
    monkeypatch.setattr(MethodCache, "_of_user", MethodCache())
    small = norm_methods.Measured(
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.Flatten(), nn.Linear(24, 10)),
        (2, 8),
        4,
    )
    return norm_methods.measure("small", small, seconds=0.0)


def test_a_row_has_the_steps_and_each_method_of_a_call_that_had_a_choice(row):
    [layer] = row["layers"]
    assert layer["kind"] == "Conv1d 3"
    assert {"rows", "patches", "grouped"} <= set(layer["microseconds"])
    assert layer["taken"] in layer["microseconds"]
    assert row["low"] <= row["ratio"] <= row["high"]


def test_the_table_marks_the_estimate_and_what_was_taken(row):
    shown = {"microseconds": {"ghost": 21.0, "rows": 20.0, "grouped": 12.0}}
    row["layers"][0] |= shown | {"estimated": "rows", "taken": "grouped"}
    table = report._norm_methods({"date": "today", **origin(), "rows": [row]})
    assert "| Conv1d 3, 2×8 → 4×6 | 21 | – | *20* | – | **12** |" in table


def test_every_model_is_one_that_can_be_trained():
    models = norm_methods.models()
    for name, model in models.items():
        x, y = model.data()
        assert model.make()(x[:2]).shape[1] > int(y[:2].max()), name
