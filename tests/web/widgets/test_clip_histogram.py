"""The clip histogram: its file against the run's own recording and loops by hand."""

import json
import math
import subprocess

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.http.assets import WIDGETS_DIR
from dpsgd_explorer.web.hub.widgets.clip_histogram import record as recorder
from dpsgd_explorer.web.hub.widgets.clip_histogram import widget
from dpsgd_explorer.web.recorded.runs import recorded

SAID = """
import {conclusion, outcome} from "%s/clip_histogram/widget.js";
import {readFileSync} from "node:fs";
const data = JSON.parse(readFileSync(0, "utf8"));
const at = (step, place) => ({...outcome(data, step, place),
  words: conclusion(outcome(data, step, place), step.step)});
const all = (step) => data.bounds.map((_, place) => at(step, place));
console.log(JSON.stringify(data.steps.map(all)));
"""
STORED = widget.stored()
STEPS = {step["step"]: step for step in STORED["steps"]}


@pytest.fixture(scope="module")
def run():
    return recorded(recorder.PRESET)


@pytest.fixture(scope="module")
def said():
    done = subprocess.run(
        ["node", "--input-type=module", "-e", SAID % WIDGETS_DIR],
        input=json.dumps(widget.data()),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_measured_run_is_the_recorded_one(run):
    preset = next(one for one in PRESETS if one.slug == recorder.PRESET)
    assert widget.config() == run.config == TrainingConfig.parse(preset.config)
    assert STORED["test_accuracy"] == run.summary["test_accuracy"]


def test_share_and_noise_at_the_runs_own_bound_are_those_the_engine_measured(run):
    own = run.config.max_grad_norm
    engine = {step["step"]: step["diagnostics"] for step in run.data("step")}
    assert tuple(STEPS) == recorder.STEPS
    for number, step in STEPS.items():
        measured = engine[number]
        assert step["batch_size"] == measured["batch_size"]
        share = widget.clipped_share(step, own)
        # at most one gradient lies within a rounding of C
        near = 1.01 / step["batch_size"]
        assert share == pytest.approx(measured["clipped_fraction"], abs=near)
        ratio = widget.noise_ratio(step, own)
        assert ratio == pytest.approx(measured["noise_to_signal"], rel=0.01)


@pytest.mark.parametrize("number", STEPS)
def test_the_bins_are_wide_enough_for_every_step(number):
    step = STEPS[number]
    assert sum(step["counts"]) == step["batch_size"]
    assert step["longest"] < STORED["edges"][-1]
    assert step["counts"][0] < 0.05 * step["batch_size"]  # it holds all shorter ones
    highest = max(place for place, count in enumerate(step["counts"]) if count)
    assert STORED["edges"][highest] <= step["longest"] <= STORED["edges"][highest + 1]


@pytest.mark.parametrize("number", STEPS)
def test_a_bound_that_cuts_nothing_turns_nothing_and_one_that_cuts_all_turns_alike(
    number,
):
    step = STEPS[number]
    expected = widget.config().expected_batch_size
    for bound, length, angle in zip(
        STORED["bounds"], step["lengths"], step["angles"], strict=True
    ):
        share = widget.clipped_share(step, bound)
        assert length <= 1.001 * bound * step["batch_size"] / expected
        assert 0 <= angle < 100
        if share == 0:
            assert angle == 0
            assert length == pytest.approx(step["true_length"], rel=1e-4)
        if share == 1:
            assert angle == step["angles"][0]
            ratio = step["lengths"][0] / STORED["bounds"][0]
            assert length / bound == pytest.approx(ratio, rel=1e-3)
    assert widget.clipped_share(STEPS[1], STORED["bounds"][0]) == 1


def test_the_recorder_measures_what_a_loop_by_hand_does():
    torch.manual_seed(3)
    model = torch.nn.Linear(3, 2)
    before = [p.clone() for p in model.parameters()]
    x, y = 5 * torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 1, 0])
    measured = recorder.measured(model, (x, y), 4)
    rows = []
    for i in range(6):
        loss = F.cross_entropy(model(x[i : i + 1]), y[i : i + 1])
        grads = torch.autograd.grad(loss, list(model.parameters()))
        rows.append(torch.cat([g.flatten() for g in grads]).double().numpy())
    gradients = np.array(rows)
    lengths = np.linalg.norm(gradients, axis=1)
    true = gradients.sum(axis=0) / 4
    assert measured["true_length"] == pytest.approx(np.linalg.norm(true), rel=1e-4)
    assert measured["longest"] == pytest.approx(lengths.max(), rel=1e-4)
    for i, bound in enumerate(recorder.BOUNDS):
        kept = np.minimum(1, bound / lengths)
        mean = (kept[:, None] * gradients).sum(axis=0) / 4
        size = np.linalg.norm(mean)
        assert measured["lengths"][i] == pytest.approx(size, rel=1e-4)
        cosine = mean @ true / (size * np.linalg.norm(true))
        angle = math.degrees(math.acos(min(1.0, cosine)))
        assert measured["angles"][i] == pytest.approx(angle, abs=0.02)
        longer = sum(measured["counts"][recorder.EDGES.index(bound) :])
        assert longer == (lengths > bound).sum()
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, new)
        assert new.grad is None


def test_the_noise_is_as_long_as_drawn_noise():
    plan, own = widget.config().plan, widget.config().max_grad_norm
    draw = np.random.default_rng(2).normal(size=(20, STORED["parameters"]))
    spread = plan.noise_multiplier * own / plan.expected_batch_size
    drawn = np.linalg.norm(spread * draw, axis=1).mean()
    assert widget.noise_length(own) == pytest.approx(drawn, rel=0.01)


def test_no_bound_is_in_the_epsilon_that_is_shown():
    settings = STORED["config"]
    for bound in STORED["bounds"]:
        other = TrainingConfig.parse(settings | {"max_grad_norm": bound})
        assert other.plan == widget.config().plan
    assert widget.data()["epsilon"] == f"{settings['target_epsilon']:.2f}"


def test_script_and_picture_say_the_same(said):
    own = widget.place_of(widget.config().max_grad_norm)
    other = widget.place_of(widget.COMPARED)
    for row, outcomes in zip(widget.picture().rows, said, strict=True):
        for cells, place in ((row[1:4], own), (row[4:], other)):
            share, turned, noise = cells
            assert f"{100 * outcomes[place]['share']:.0f}" == share
            assert f"{outcomes[place]['degrees']:.0f}°" == turned
            assert f"{outcomes[place]['ratio']:.2g}" == f"{float(noise):.2g}"
    first = said[widget.data()["first"]][own]
    assert first["words"] == widget.picture().title


def test_it_is_recorded_and_not_private():
    picture = widget.picture()
    assert picture.kind == "recorded"
    assert not picture.is_private
