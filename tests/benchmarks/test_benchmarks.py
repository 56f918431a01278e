"""The benchmark command measures what it says and writes what it measured."""

import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks import record, report
from benchmarks.growth import case_of
from benchmarks.measure import prepared
from benchmarks.models import CASES
from benchmarks.plot import line_plot
from benchmarks.ways import WAYS
from dpsgd_explorer.training.timing import Step, time_in_turns


def busy(loops):
    return Step(lambda: sum(range(loops)))


def test_ratios_are_to_the_first_way():
    timings = time_in_turns({"short": busy(20_000), "long": busy(200_000)}, 0.1)
    assert timings["short"].ratio == 1.0
    assert 5 < timings["long"].ratio < 20
    assert timings["long"].low <= timings["long"].ratio <= timings["long"].high


def test_our_ways_can_be_stepped():
    steps, skipped = prepared(CASES["logreg"], ["ordinary", "hooks", "hooks_kernels"])
    assert skipped == {}
    assert list(steps) == ["ordinary", "hooks", "hooks_kernels"]


def test_a_growing_case_can_be_made_again_from_its_numbers():
    assert case_of("width", 16, 32).model()[0].out_features == 32
    assert case_of("length", 4, 128).data()[0].shape == (4, 128)
    assert case_of("mlp", 256) is CASES["mlp"]


def test_rows_measured_before_stay_unless_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    record.update("core", [{"model": "a", "x": 1}, {"model": "b", "x": 2}], "model")
    record.update("core", [{"model": "b", "x": 3}], "model")
    assert record.read("core")["rows"] == [
        {"model": "a", "x": 1},
        {"model": "b", "x": 3},
    ]
    assert record.read("core")["versions"]["torch"]


def test_the_page_must_have_a_place_for_the_table():
    marked = report._replace("a <!-- core -->old<!-- /core --> b", "core", "new")
    assert marked == "a <!-- core -->\nnew\n<!-- /core --> b"
    with pytest.raises(ValueError, match="growth"):
        report._replace("nothing", "growth", "new")


def test_every_goal_is_of_a_way_and_model_that_are_measured():
    assert set(report.BARS) <= set(WAYS)
    assert all(set(bars) == set(CASES) for bars in report.BARS.values())


def test_a_plot_is_well_formed_and_names_its_lines():
    points = [(16, 1.0), (64, 20.0), (4096, 300.0)]
    drawn = line_plot({"ours <1>": points, "other": points[:2]}, "batch", "ms")
    texts = [e.text for e in ElementTree.fromstring(drawn).iter() if e.text]
    assert {"ours <1>", "other", "batch", "ms"} <= set(texts)


def test_the_checks_of_a_step_took_what_they_may():
    rows = record.read("checks")["rows"]
    assert {row["model"] for row in rows} == set(CASES)
    assert [r["model"] for r in rows if r["checks_us"] > r["allowed_us"]] == []
