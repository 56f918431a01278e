"""The microscope: the script computes what the picture without script shows."""

import json
import math
import re
import subprocess

import pytest

from dpsgd_explorer.web.http.assets import FRONT_DIR, WIDGETS_DIR
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.widgets.microscope import dpsgd_step, widget

STEP = """
import {compute} from "%s/js/widgets/common/dpsgd_step.js";
import {words} from "%s/microscope/words.js";
import {readFileSync} from "node:fs";
const data = JSON.parse(readFileSync(0, "utf8"));
const [noise, ...ghosts] = data.noise;
const state = {...data, noiseMultiplier: data.noise_multiplier, noise, ghosts};
const step = compute(state);
const said = data.steps.map(([name]) => words(name, step, state));
console.log(JSON.stringify({...step, words: said}));
"""


@pytest.fixture(scope="module")
def computed():
    run = subprocess.run(
        [
            "node",
            "--input-type=module",
            "-e",
            STEP % (FRONT_DIR / "static", WIDGETS_DIR),
        ],
        input=json.dumps(widget.data()),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def test_the_script_computes_the_step_of_the_picture(computed):
    now, size = dpsgd_step.step(), dpsgd_step.EXPECTED_BATCH_SIZE
    for mine, theirs in (
        (now.gradients, computed["pulls"]),
        (now.clipped, computed["clipped"]),
    ):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert b == pytest.approx(a, abs=1e-5)
    for mean, name in (
        (now.true_mean, "true"),
        (now.clipped_mean, "clipped"),
        (now.released, "noisy"),
    ):
        assert computed["sums"][name] == pytest.approx(toy.scaled(mean, size), abs=1e-3)
    assert computed["cut"] == now.clipped_count


def test_heading_of_script_and_picture_say_the_same(computed):
    names = [name for name, _ in widget.SUB_STEPS]
    [heading, _] = computed["words"][names.index("noise")]
    said = re.findall(r"\d+°", widget.picture().title)
    assert re.findall(r"\d+°", heading) == said
    assert said[0] == widget.clipped_degrees()


def test_the_odd_record_pulls_hardest_and_clipping_turns_the_step():
    now = dpsgd_step.step()
    lengths = dict(zip(now.drawn, map(toy.norm, now.gradients), strict=True))
    assert max(lengths, key=lengths.get) == toy.ODD
    assert lengths[toy.ODD] > 2 * sorted(lengths.values())[-2]
    assert toy.angle(now.true_mean, now.clipped_mean) > 10
    assert len(now.drawn) != dpsgd_step.EXPECTED_BATCH_SIZE


def test_each_sub_step_has_its_term_in_the_formula():
    template = (WIDGETS_DIR / "microscope" / "widget.html").read_text()
    terms = re.findall(r'data-term="(\w+)"', template)
    assert sorted(terms) == sorted(name for name, _ in widget.SUB_STEPS)


def test_sliders_start_where_the_picture_stands():
    start = widget.data()["start"]
    assert 2 ** start["bound"] == dpsgd_step.MAX_GRAD_NORM
    assert math.isclose(2 ** start["noise"], dpsgd_step.NOISE_MULTIPLIER, rel_tol=1e-3)
