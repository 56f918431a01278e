"""The charts of a run as the server draws them: the points of the run, all in view."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.charts.run_charts import RUN_CHARTS
from dpsgd_explorer.web.figures.run_charts.accuracy import Line
from dpsgd_explorer.web.figures.run_charts.standing import standing
from dpsgd_explorer.web.pages.train import recorded_curves
from dpsgd_explorer.web.questions.plan_preview import chart_catalogue, plan_of
from dpsgd_explorer.web.recorded.runs import recorded
from dpsgd_explorer.web.run_views.training import TrainingView

SLUGS = ["mnist", "mnist-cnn", "mnist-pixels", "adult"]


def paths(svg, css):
    """Return the points of each line of a class, in thousandths of the area."""
    found = re.findall(rf'<path class="line {css}" d="M([^"]+)"', svg)
    return [[tuple(map(float, p.split())) for p in d.split("L")] for d in found]


def drawings(slug):
    run = recorded(slug)
    return run, TrainingView().standing(run.config, run.data)


@pytest.mark.parametrize("slug", SLUGS)
def test_every_evaluation_of_a_run_is_in_view(slug):
    run, charts = drawings(slug)
    [line] = paths(charts["accuracy"], "s-private")
    assert len(line) == len(run.data("evaluation"))
    assert all(0 <= x <= 1000 and 0 < y < 1000 for x, y in line)
    xs = [x for x, _ in line]
    assert xs == sorted(xs)


def test_norms_and_losses_of_a_run_are_drawn():
    run, charts = drawings("adult")
    last = run.data("step")[-1]["diagnostics"]["norm_counts"]
    assert charts["norms"].count("<rect") == len(last)
    assert f"C = {run.config.max_grad_norm:g}" in charts["norms"]
    train, test = paths(charts["loss"], "s-private(?: thin soft)?")
    assert len(train) == len(run.data("step"))
    assert len(test) == len(run.data("evaluation"))


def test_a_twin_stands_at_the_privacy_that_the_run_has_spent():
    run, curves = recorded("adult"), recorded_curves()["adult"]
    line = Line(curves["twin"], "twin", "s-twin thin dashed")
    own = Line(curves["recorded"], "recorded", "s-private thin")
    svg = standing(run.config, plan_of(run.config), [line, own])["accuracy"]
    [beside] = paths(svg, "s-twin thin dashed")
    [curve] = paths(svg, "s-private thin")
    assert [x for x, _ in beside] == [x for x, _ in curve]


def test_without_privacy_the_axis_is_steps_and_there_is_no_wall():
    config = recorded("adult-twin").config
    line = Line(recorded("adult-twin").data("evaluation"), "open", "s-twin", True)
    svg = standing(config, plan_of(config), [line])["accuracy"]
    assert "s-budget" not in svg
    assert ">step</text>" in svg


def test_without_a_plan_nothing_stands():
    assert standing(TrainingConfig.parse({}), None, []) == {}


LIVE = Path(__file__).with_name("live_ticks.js")


def places_of_ticks(svg):
    """Return the shares of both axes at which a drawing has labelled ticks."""
    below = re.findall(
        r'class="below" x="([\d.]+)%" y="100%"><path[^>]+/><text class=""', svg
    )
    across = re.findall(r'class="grid" x2="100%" y1="([\d.]+)%"', svg)
    return [float(x) / 100 for x in below], [1 - float(y) / 100 for y in across]


@pytest.mark.parametrize("with_run", [False, True])
@pytest.mark.parametrize("slug", [*SLUGS, "adult-twin"])
def test_the_servers_charts_have_the_ticks_of_the_live_ones(slug, with_run):
    """The server's charts are there until the script's replace them."""
    run = recorded(slug)
    config, plan = run.config, plan_of(run.config)
    kinds = ("phase", "step", "evaluation") if with_run else ()
    events = [{"kind": kind, "data": data} for kind in kinds for data in run.data(kind)]
    given = {
        "plan": plan,
        "config": config.model_dump(mode="json"),
        "catalogue": chart_catalogue(),
        "charts": {chart.name: chart.described() for chart in RUN_CHARTS},
        "events": events,
    }
    done = subprocess.run(
        ["node", str(LIVE)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    live = json.loads(done.stdout)
    drawn = (
        TrainingView().standing(config, run.data)
        if with_run
        else standing(config, plan, [])
    )
    assert drawn.keys() == live.keys()
    for name, svg in drawn.items():
        for found, wanted in zip(places_of_ticks(svg), live[name], strict=True):
            assert found == pytest.approx(wanted, abs=1e-4), name


@pytest.mark.parametrize(
    ("losses", "is_far"),
    [
        ([0.67, 1.05, 0.8, 0.6, 0.5, 0.46], True),
        ([2.3, 1.4, 0.8, 0.6, 0.5], False),
        ([2.3] * 8, True),
    ],
)
def test_a_loss_that_rises_above_its_start_is_in_view(losses, is_far):
    [chart] = RUN_CHARTS
    points = [{"step": i, "test_loss": loss} for i, loss in enumerate(losses)]
    top = chart.top((0.8, 2.5), {"evaluation": points, "step": []})
    assert top == (2.5 if is_far else 0.8)
