"""The recorded step of a network: it is the run's, and its lengths are right."""

import json
import math
import subprocess

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.web.http.assets import WIDGETS_DIR
from dpsgd_explorer.web.hub.widgets.clip_histogram import widget as clip_histogram
from dpsgd_explorer.web.hub.widgets.microscope import real_step as widget
from dpsgd_explorer.web.hub.widgets.microscope import record as real_step
from dpsgd_explorer.web.recorded.runs import recorded

LENGTHS = """
import {lengthsAt} from "%s/microscope/lengths.js";
import {readFileSync} from "node:fs";
const data = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(lengthsAt(data, data.bound)));
"""


@pytest.fixture(scope="module")
def run():
    return recorded(real_step.PRESET.slug)


def test_the_step_is_one_of_the_recorded_run(run):
    step = widget.real_step()
    stored = step.stored
    [event] = [e for e in run.data("step") if e["step"] == stored["step"]]
    found = event["diagnostics"]
    assert step.config == run.config
    assert stored["step"] == real_step.STEP
    assert len(stored["lengths"]) == found["batch_size"]
    assert step.cut / len(stored["lengths"]) == pytest.approx(found["clipped_fraction"])
    # The run's noise was drawn: its length has a relative std of 1/√(2d), 0.44 %.
    ratio = step.noise / step.clipped
    assert ratio == pytest.approx(found["noise_to_signal"], rel=0.02)


def test_both_recordings_of_the_step_say_the_same():
    step = widget.real_step()
    other = next(
        one
        for one in clip_histogram.stored()["steps"]
        if one["step"] == step.stored["step"]
    )
    own = step.config.max_grad_norm
    mine = step.stored["degrees"][step.stored["bounds"].index(own)]
    assert mine == other["angles"][clip_histogram.place_of(own)]
    assert step.stored["true"] == pytest.approx(
        other["true_length"] * step.config.expected_batch_size, rel=1e-3
    )


def test_lengths_are_sorted_and_sums_keep_their_order():
    stored = widget.real_step().stored
    lengths = stored["lengths"]
    assert lengths == sorted(lengths, reverse=True)
    assert stored["bounds"] == sorted(stored["bounds"])
    assert stored["clipped"] == sorted(stored["clipped"])  # longer with C
    for bound, clipped in zip(stored["bounds"], stored["clipped"], strict=True):
        assert clipped <= sum(min(bound, one) for one in lengths) * 1.001
    assert stored["true"] <= sum(lengths)
    assert stored["degrees"] == sorted(stored["degrees"], reverse=True)


def test_what_is_measured_are_the_gradients_of_a_loop():
    generator = torch.Generator().manual_seed(1)
    model = nn.Linear(3, 2)
    x = 3 * torch.randn(6, 3, generator=generator)
    y = torch.tensor([0, 1, 0, 1, 1, 0])
    rows = []
    for one, label in zip(x, y, strict=True):
        model.zero_grad()
        F.cross_entropy(model(one[None]), label[None]).backward()
        rows.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    found = real_step.measured(model, (x, y), [0.5, 1e6])
    lengths = sorted((float(row.norm()) for row in rows), reverse=True)
    assert found["lengths"] == pytest.approx(lengths, rel=1e-3)
    clipped = sum(row * min(1.0, 0.5 / float(row.norm())) for row in rows)
    assert found["true"] == pytest.approx(float(sum(rows).norm()), rel=1e-3)
    assert found["clipped"][0] == pytest.approx(float(clipped.norm()), rel=1e-3)
    assert found["clipped"][1] == pytest.approx(found["true"], rel=1e-3)
    assert found["degrees"][1] == pytest.approx(0, abs=0.05)


def test_page_and_script_compute_the_same_noise():
    answer = subprocess.run(
        ["node", "--input-type=module", "-e", LENGTHS % WIDGETS_DIR],
        input=json.dumps(widget.data()),
        capture_output=True,
        text=True,
        check=True,
    )
    found, step = json.loads(answer.stdout), widget.real_step()
    assert found["cut"] == step.cut
    assert found["sums"]["clipped"] == pytest.approx(step.clipped)
    assert found["sums"]["noise"] == pytest.approx(step.noise, rel=1e-5)
    assert found["sums"]["noisy"] == pytest.approx(math.hypot(step.noise, step.clipped))


def test_the_page_says_what_it_shows_and_that_it_is_not_private(reading):
    page = reading.get("/embed/microscope/").text.replace("\N{NO-BREAK SPACE}", " ")
    still, live = page.split("data-live hidden")
    for view in (still, live):
        assert '<span class="badge not-private">not private</span>' in view
        assert '<span class="badge recorded">recorded</span>' in view
    step = widget.real_step()
    assert f"C = 0.1 cuts {step.cut} of 524 gradients" in still
    assert f"{step.noise / step.clipped:.1f} times as long as the clipped sum" in still


def test_noise_in_many_directions_is_about_as_long_as_said():
    """σ√d within 4/√(2d) of it, and as good as at right angles to a fixed direction."""
    d = widget.real_step().stored["parameters"]
    noise = torch.randn(d, generator=torch.Generator().manual_seed(5))
    assert abs(float(noise.norm()) / math.sqrt(d) - 1) < 4 / math.sqrt(2 * d)
    assert abs(float(noise[0] / noise.norm())) < 5 / math.sqrt(d)
