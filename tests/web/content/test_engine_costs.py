"""What an engine costs is one figure on all pages, and that of the benchmarks."""

import json
import re
from pathlib import Path

import pytest

from dpsgd_explorer.web.content import engines
from dpsgd_explorer.web.content.choice_notes import choice_notes
from dpsgd_explorer.web.hub.chapters.per_sample_gradients.figures import engine_costs
from dpsgd_explorer.web.labs.engines.view import recorded_comparison
from dpsgd_explorer.web.recorded.files import recording

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results" / "core.json"
OURS = ("hooks", "extending")
#: Both measure the same steps; between two days on one machine they differ by 0.06.
FACTOR = 1.15
#: The lab's own transformer is smaller, so the fixed costs of a step count for more.
#: Recorded before the kernels were compiled it was 1.83 times the benchmark's.
SMALLER = 1.75


def results():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def measured(model, way):
    """Return the row of the benchmarks."""
    [row] = [r for r in results()["rows"] if (r["model"], r["way"]) == (model, way)]
    return row


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize("model", engines.models())
def test_the_recorded_cost_is_that_of_the_benchmarks(model, way):
    row, (time, _) = measured(model, way), engines.models()[model][way]
    assert engines.batches()[model] == row["batch"]
    assert 1 / FACTOR <= time / row["ratio"] <= FACTOR


@pytest.mark.parametrize("way", OURS)
def test_the_comparison_of_the_lab_is_of_this_engine(way):
    _, events = recorded_comparison()
    [ratio] = [e["data"]["ratio"] for e in events if e["data"].get("engine") == way]
    assert 1 / SMALLER <= ratio / measured("transformer", way)["ratio"] <= SMALLER


def test_all_costs_are_of_the_machine_and_the_torch_of_the_benchmarks():
    """Ratios of another processor, or of another torch, are other ratios."""
    of = results()
    origin = (
        f"{of['machine']['processor']} ({of['machine']['instructions']})",
        of["versions"]["torch"],
    )
    costs = recording(engines.COSTS)
    assert (costs["machine"], costs["torch"]) == origin
    lab = recorded_comparison()[1][0]["data"]["machine"]
    assert (f"{lab['processor']} ({lab['instructions']})", lab["torch"]) == origin


def test_chapter_trainer_and_page_have_the_same_figures():
    costs = engines.models()["transformer"]
    for engine, time, memory, _ in engine_costs():
        assert (time, memory) == tuple(f"{x:.2f} times" for x in costs[engine])
    for engine, note in choice_notes()["engine"].items():
        said = re.findall(r"(\d+\.\d+) × the (?:time|memory)", note)
        assert said == [f"{x:.2f}" for x in costs[engine]]
