"""The program that repeats a run says what this version computes in another way."""

import json

import pytest

from dpsgd_explorer.web.run_views.exports.reproduce import notebook, script

PHASE = {
    "step": 0,
    "norm_methods": {"Linear; weight bias; 20x64 float32": "instantiate"},
}
CHANGE = {"step": 2, "changes": {"learning_rate": 0.1}}
NOTE = "the last digits may differ"


@pytest.fixture
def run(store, finished):
    return store.get(finished)


def of_notebook(run, phases):
    cells = json.loads(notebook(run, phases))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells[1:])


@pytest.mark.parametrize("write", [script, of_notebook], ids=["script", "notebook"])
def test_a_run_of_a_version_that_measured_methods_has_a_note_of_it(run, write):
    text = write(run, [PHASE, CHANGE])
    compile(text, "repeat.py", "exec")
    assert NOTE in text
    assert "start(CONFIG, changes=CHANGES)" in text
    assert "norm_methods" not in text


def test_a_run_that_measured_nothing_has_no_word_of_it(run):
    assert NOTE not in script(run, [{"step": 0}])
    assert script(run, []) == script(run, [{"step": 0}])
