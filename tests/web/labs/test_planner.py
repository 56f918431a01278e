"""The planner's page: the map that the server draws."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dpsgd_explorer.web.labs.planner import figure
from dpsgd_explorer.web.labs.planner.budget_map import COLUMNS, ROWS, compute_grid
from dpsgd_explorer.web.recorded.files import recording
from tests.web.reading import page_data

LAB = "/labs/planner/"
FOLDER = Path(__file__).parents[3] / "dpsgd_explorer" / "web" / "labs" / "planner"
SCRIPT = """
import {conclusion, heightOf, marks} from "%s/budget_map.js";
import {Chart} from "%s/../../../../static/js/lib/svg.js";
import {readFileSync} from "node:fs";
const {view, widths} = JSON.parse(readFileSync(0, "utf8"));
const words = widths.map((width) => {
  const size = {width, height: heightOf(width)};
  const chart = Object.assign(Object.create(Chart.prototype), size);
  return marks(chart, view).filter(({name}) => name === "text")
    .map(({attributes: {x, y}, content}) => [content, x, y]);
});
const heights = widths.map(heightOf);
console.log(JSON.stringify({said: conclusion(view), words, heights}));
"""
WORDS = re.compile(r'<text x="([^"]*)" y="([^"]*)"[^>]*>([^<]*)</text>')


@pytest.mark.parametrize(
    "query", [{}, {"epsilon": "1.5", "epochs": "3", "map": "true"}]
)
def test_the_script_draws_the_same_map(reading, query):
    text = reading.get(LAB, query_string=query).text
    drawings = re.findall(r"<svg class=\"plot.*?</svg>", text, re.DOTALL)
    data = page_data(text)
    view = data["map"] | {"ticks": data["ticks"], "point": data["answer"]}
    done = subprocess.run(
        ["node", "--input-type=module", "-e", SCRIPT % (FOLDER, FOLDER)],
        input=json.dumps({"view": view, "widths": [figure.WIDE[0], figure.NARROW[0]]}),
        capture_output=True,
        text=True,
        check=True,
    )
    scripted = json.loads(done.stdout)
    assert scripted["heights"] == [figure.WIDE[1], figure.NARROW[1]]
    assert f"data-conclusion>{scripted['said']}<" in text
    for svg, words in zip(drawings, scripted["words"], strict=True):
        written = sorted((w, float(x), float(y)) for x, y, w in WORDS.findall(svg))
        drawn = sorted((str(w), x, y) for w, x, y in words)
        assert [w for w, *_ in written] == [w for w, *_ in drawn]
        for (_, *there), (_, *here) in zip(written, drawn, strict=True):
            assert there == pytest.approx(here, abs=0.11)


def test_a_map_is_drawn_at_once_or_on_demand(reading):
    asked = {"epsilon": "2", "noise_multiplier": "1"}
    later = reading.get(LAB, query_string=asked).text
    assert page_data(later)["map"] is None
    [link] = re.findall(r'<noscript><p><a href="(\?[^"]*)"', later)
    at_once = reading.get(LAB + link.replace("&amp;", "&")).text
    assert page_data(at_once)["map"]["budget"]["epsilon"] == 2
    assert page_data(reading.get(LAB).text)["map"]


def test_the_recorded_map_is_that_of_the_first_plan_as_the_accountant_has_it(reading):
    """If this fails: python -m dpsgd_explorer.web.labs.planner.record"""
    stored = recording("recorded", FOLDER)
    plan = stored["sample_size"], stored["expected_batch_size"], stored["delta"]
    answer = page_data(reading.get(LAB).text)["answer"]
    batch, steps = answer["expected_batch_size"], answer["steps"]
    assert plan == (round(batch * steps / answer["epochs"]), batch, answer["delta"])
    grid = compute_grid(*plan)
    assert grid.shape == (ROWS, COLUMNS)
    assert np.array(stored["log_epsilon"]) == pytest.approx(grid, abs=1e-6)


def test_a_plan_beyond_the_map_has_none(reading):
    wrong = reading.get(LAB, query_string={"delta": "0.1", "map": "true"}).text
    assert page_data(wrong)["map"] is None
