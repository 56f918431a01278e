"""The benchmark command measures what it says and writes what it measured."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks import own_process, processes, record, report, steps, wall
from benchmarks.__main__ import HELP, main
from benchmarks.distributed import ranks
from benchmarks.models import CASES, GROWING, case_named
from benchmarks.plot import line_plot
from benchmarks.ways import WAYS
from tools import marked_text


@pytest.mark.long("benchmarks")
def test_a_table_has_time_and_memory_of_each_way():
    ways = ["ordinary", "hooks", "hooks_kernels"]
    rows = steps.core("logreg", ways, seconds=0.0)
    assert [row["way"] for row in rows] == ways
    assert rows[0]["ratio"] == 1.0
    assert all(row["milliseconds"] > 0 and row["extra_mib"] > 0 for row in rows)


def test_the_help_explains_every_command_in_a_line(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    _, _, table = capsys.readouterr().out.partition("\ncommands:\n")
    rows = dict(line.split(maxsplit=1) for line in table.splitlines())
    assert rows == HELP
    assert all(len(line) <= 100 for line in table.splitlines())


def test_a_case_is_made_again_from_its_key():
    cases = [
        *CASES.values(),
        *(case for at in GROWING.values() for case in at.values()),
    ]
    assert all(case_named(case.key) == case for case in cases)
    assert case_named("width:256").model()[0].out_features == 256
    assert case_named("length:16").data()[0].shape == (8, 16)


def test_rows_measured_before_stay_unless_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    record.update("core", [{"model": "a", "x": 1}, {"model": "b", "x": 2}], "model")
    record.update("core", [{"model": "b", "x": 3}], "model")
    assert record.read("core")["rows"] == [
        {"model": "a", "x": 1},
        {"model": "b", "x": 3},
    ]
    assert record.read("core")["versions"]["torch"]


def test_only_the_text_between_a_pages_markers_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a <!-- core -->old<!-- /core --> b")
    marked_text.put(page, "core", "new\nrow")
    assert page.read_text() == "a <!-- core -->\nnew\nrow\n<!-- /core --> b"
    assert marked_text.lines_between(page, "core") == ["new", "row"]
    with pytest.raises(ValueError, match="growth"):
        marked_text.put(page, "growth", "new")


def test_the_readme_shows_the_recorded_speed():
    shown = marked_text.lines_between(report.README, "speed")
    assert shown == report.speed(record.read("architectures")).splitlines()


def test_every_goal_is_of_a_way_and_model_that_are_measured():
    assert set(report.BARS) <= set(WAYS)
    bars = [*report.BARS.values(), report.ABOVE_FLOOR, wall.ALLOWED]
    assert all(set(each) == set(CASES) for each in bars)


def test_the_bar_of_a_private_step_is_measured_from_the_floor_of_its_run():
    row = {"model": "mlp", "milliseconds": 3.0, "extra_mib": 1.0}
    ratios = {"ordinary": 1.0, "ordinary_noise": 1.25, "hooks": 1.4}
    rows = [row | {"way": way, "ratio": ratio} for way, ratio in ratios.items()]
    text = report._core(record.origin() | {"date": "2026-11-23", "rows": rows})
    assert "| *to be at most* | 1.55 |" in text


def test_the_wall_clock_is_measured_of_the_ways_of_its_table(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(wall, "WAYS", ("ordinary", "hooks"))
    monkeypatch.setattr(wall, "CASES", {"logreg": CASES["logreg"]})
    monkeypatch.setattr(wall, "SECONDS", 0.0)
    monkeypatch.setattr(steps, "PROCESSES", 1)
    wall.main()
    read = record.read("wall")
    assert read["threads"] == 2
    assert [r["way"] for r in read["rows"]] == ["ordinary", "hooks"]
    assert "| *to be at most* | 1.50 |" in wall.table(read)


def test_a_plot_is_well_formed_and_names_its_lines():
    points = [(16, 1.0), (64, 20.0), (4096, 300.0)]
    drawn = line_plot({"ours <1>": points, "other": points[:2]}, "batch", "ms")
    texts = [e.text for e in ElementTree.fromstring(drawn).iter() if e.text]
    assert {"ours <1>", "other", "batch", "ms"} <= set(texts)


def test_the_checks_of_a_step_took_what_they_may():
    rows = record.read("checks")["rows"]
    assert {row["model"] for row in rows} == set(CASES)
    assert [r["model"] for r in rows if r["checks_us"] > r["allowed_us"]] == []


@pytest.mark.parametrize(
    ("does", "rests"), [("signal.pause()", True), ("os.times()", False)]
)
def test_a_training_process_rests_when_it_wants_no_core(monkeypatch, does, rests):
    monkeypatch.setattr(processes, "REST_SECONDS", 0.2)
    code = f"import os, signal; print(flush=True)\nwhile True: {does}"
    command = [sys.executable, "-c", code, processes.TRAINS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        before = processes.Times.now()
        assert process.pid in processes.started()
        assert processes.rest(1, patience_s=20.0 if rests else 0.5) == rests
        assert (processes.Times.now().ours > before.ours) == (not rests)
        process.kill()
    assert not processes.rest(1, patience_s=0.1)


def test_the_share_of_ddps_scaling_is_that_of_the_speed_ups():
    rows = [
        {"processes": size, "way": way, "wall_ms": wall, "cpu_ms": wall}
        for size, way, wall in [
            (1, "DDP", 100.0),
            (1, "private", 120.0),
            (2, "DDP", 50.0),
            (2, "private", 80.0),
        ]
    ]
    ranks._add_scaling(rows)
    assert [row["speedup"] for row in rows] == [1.0, 1.0, 2.0, 1.5]
    assert [row["share"] for row in rows] == [1.0, 1.0, 1.0, 0.75]


def test_of_several_processes_the_middle_one_counts(monkeypatch):
    said = iter([1.4, 1.1, 1.2])

    def output_of(module, *arguments, timeout_s=None):
        timings = {"hooks": {"ratio": next(said)}, "ordinary": {"ratio": 1.0}}
        return f"a warning\n{json.dumps(timings)}\n"

    monkeypatch.setattr(own_process, "output_of", output_of)
    found = steps._beside(CASES["mlp"], "ordinary", "hooks", 3.0, 1)
    assert found["hooks"]["ratio"] == 1.2


def test_why_a_way_is_not_measured_is_said_once(monkeypatch):
    asked = []

    def output_of(module, *arguments, timeout_s=None):
        asked.append(arguments)
        base = {"ratio": 1.0, "milliseconds": 2.0}
        return json.dumps({"ordinary": base, "vmap": {"skipped": "too large"}})

    monkeypatch.setattr(own_process, "output_of", output_of)
    rows = steps.timed(CASES["mlp"], ["ordinary", "vmap"], 1.0)
    assert rows[1] == {"way": "vmap", "skipped": "too large"}
    assert len(asked) == 1
