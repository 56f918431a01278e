"""Charts of several runs: the descriptions that the server sends."""

import json
import re
from pathlib import Path

import pytest

from dpsgd_explorer.web.charts.several_runs import (
    COMPARED,
    LINES_BEHIND,
    OF_A_CLASS,
    OF_A_SWEEP,
    OF_A_TWIN,
    OF_SEEDS,
    lines_behind,
)

FIXTURE = Path(__file__).parents[2] / "js" / "several_runs.json"
CHARTS = {
    **{chart.name: chart for chart in COMPARED},
    "class": OF_A_CLASS,
    "sweep": OF_A_SWEEP,
    "seeds": OF_SEEDS,
    "twin": OF_A_TWIN,
}
VALUES = {"count", "most", "least", "high", "low", "gap"}
# Names that the script fills in, by kind of sentence.
FILLED = {
    "data_sets": {"count"},
    "absent": {"labels", "count"},
    "one": VALUES,
    "equal": VALUES,
    "several": VALUES,
}


def described():
    """Return all descriptions, as the tests of the scripts read them."""
    charts = {name: chart.described() for name, chart in CHARTS.items()}
    return json.loads(json.dumps({"charts": charts, "behind": lines_behind()}))


def test_the_tests_of_the_scripts_read_what_the_server_sends():
    """If this fails: python -m tests.web.charts.test_several_runs"""
    assert json.loads(FIXTURE.read_text("utf-8")) == described()


@pytest.mark.parametrize("name", CHARTS)
def test_the_script_can_fill_every_sentence(name):
    for case, sentence in CHARTS[name].words.items():
        names = set(re.findall(r"\{(\w+)\}", sentence))
        assert names <= FILLED.get(case, set()), case
    for axis in CHARTS[name].axes:
        assert re.findall(r"\{(\w+)\}", axis.reads) == ["x"]


def test_lines_behind_a_curve_differ_in_look():
    assert len({(look.colour, look.dashes) for look in LINES_BEHIND.values()}) == 4
    assert LINES_BEHIND["twin"].css == "s-twin thin dashed"


if __name__ == "__main__":
    text = json.dumps(described(), ensure_ascii=False, indent=1)
    FIXTURE.write_text(text + "\n", encoding="utf-8")
