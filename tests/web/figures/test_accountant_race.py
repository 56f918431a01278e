"""The accountant race as the server draws and says it, against the script."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from dpsgd_explorer.web.figures import accountant_race as figure
from dpsgd_explorer.web.questions import rounding
from dpsgd_explorer.web.questions.accountant_race import race
from dpsgd_explorer.web.questions.privacy_models import CurvesQuestion

SCRIPT = """
import {conclusion, decades, epsilonText, heightOf, marks, runners} from "%s/race.js";
import {Chart} from "%s/../lib/svg.js";
import {readFileSync} from "node:fs";
const {looks, answers, numbers, widths} = JSON.parse(readFileSync(0, "utf8"));
const drawn = (answer) => {
  const racers = runners(answer.curves, looks);
  const last = answer.steps.length - 1;
  const words = widths.map((width) => {
    const size = {width, height: heightOf(width)};
    const chart = Object.assign(Object.create(Chart.prototype), size);
    const view = {steps: answer.steps, runners: racers, reached: last, hasValues: true};
    return marks(chart, view).filter(({name}) => name === "text")
      .map(({attributes: {x, y}, content}) => [content, x, y]);
  });
  return {said: conclusion(answer.steps, racers, last), words};
};
console.log(JSON.stringify({answers: answers.map(drawn),
  numbers: numbers.map(epsilonText), heights: widths.map(heightOf)}));
"""
FOLDER = Path(__file__).parents[3] / "static" / "js" / "charts"
RUNS = (
    {"sample_rate": 0.01, "noise_multiplier": 4.0, "steps": 10_000},
    {"sample_rate": 0.015, "noise_multiplier": 0.65, "steps": 202},
    {"sample_rate": 1.0, "noise_multiplier": 10.0, "steps": 100},
    {"sample_rate": 1.0, "noise_multiplier": 0.02, "steps": 2},
)
NUMBERS = (None, 0, 1e-9, 0.00012345, 0.947, 0.94686681, 1, 999.95, 223.4901, 1e6, 3e9)
WORDS = re.compile(r'<text x="([^"]*)" y="([^"]*)"[^>]*>([^<]*)</text>')


@pytest.fixture(scope="module")
def answers():
    return [race(CurvesQuestion(**run, delta=1e-5, points=11)) for run in RUNS]


@pytest.fixture(scope="module")
def scripted(answers):
    sent = {
        "looks": figure.looks(),
        "answers": [answer.model_dump(mode="json") for answer in answers],
        "numbers": NUMBERS,
        "widths": [figure.WIDE[0], figure.NARROW[0]],
    }
    done = subprocess.run(
        ["node", "--input-type=module", "-e", SCRIPT % (FOLDER, FOLDER)],
        input=json.dumps(sent),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_an_epsilon_is_printed_alike_and_never_below_its_value(scripted):
    assert [rounding.epsilon_limit(number) for number in NUMBERS] == scripted["numbers"]
    for number, text in zip(NUMBERS[2:], scripted["numbers"][2:], strict=True):
        assert number * (1 - 1e-9) <= float(text.replace(",", "")) <= number * 1.001


def test_both_say_the_same_of_a_race(answers, scripted):
    for answer, one in zip(answers, scripted["answers"], strict=True):
        assert figure.picture(answer).title == one["said"]


def test_both_draw_the_same_words_at_the_same_places(answers, scripted):
    assert scripted["heights"] == [figure.WIDE[1], figure.NARROW[1]]
    for answer, one in zip(answers, scripted["answers"], strict=True):
        picture = figure.picture(answer)
        for svg, words in zip(
            (picture.wide, picture.narrow), one["words"], strict=True
        ):
            written = sorted((w, float(x), float(y)) for x, y, w in WORDS.findall(svg))
            drawn = sorted((str(w), x, y) for w, x, y in words)
            assert [w for w, *_ in written] == [w for w, *_ in drawn]
            for (_, *there), (_, *here) in zip(written, drawn, strict=True):
                assert there == pytest.approx(here, abs=0.11)
