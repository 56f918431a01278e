"""The program that repeats a run takes the norm methods that the run took."""

import json

import pytest

from dpsgd_explorer.experiments import PerformanceSettings
from dpsgd_explorer.web.run_views.exports.reproduce import notebook, script

METHODS = {
    "Linear; weight bias; 20x64 float32; 20x64 float32": "instantiate",
    "ConvNd 3x3 1x1 1x1 of 1; weight; 3x32x32 float32; 32x32x32 float32": "grouped",
}
PHASE = {"step": 0, "norm_methods": METHODS}
CHANGE = {"step": 2, "changes": {"learning_rate": 0.1}, "norm_methods": METHODS}


@pytest.fixture
def run(store, finished):
    return store.get(finished)


def of_notebook(run, phases):
    cells = json.loads(notebook(run, phases))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells[1:])


@pytest.mark.parametrize("write", [script, of_notebook], ids=["script", "notebook"])
def test_the_program_names_the_methods_that_were_taken(run, write):
    text = write(run, [PHASE])
    assert "start(CONFIG, performance=PERFORMANCE)" in text
    settings = text[: text.index("def main" if write is script else "curve =")]
    names = {}
    exec(settings, names)
    assert names["PERFORMANCE"] == PerformanceSettings(norm_methods=METHODS)
    assert max(map(len, text.splitlines())) < 120


def test_changes_and_methods_stand_side_by_side(run):
    text = script(run, [PHASE, CHANGE])
    assert "start(CONFIG, changes=CHANGES, performance=PERFORMANCE)" in text
    compile(text, "repeat.py", "exec")


def test_a_run_that_measured_nothing_has_no_word_of_it(run):
    assert "PERFORMANCE" not in script(run, [{"step": 0}])
    assert script(run, []) == script(run, [{"step": 0}])
