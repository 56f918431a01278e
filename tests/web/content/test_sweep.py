"""The sweep over C, learning rate and momentum: its origin, and the ranges it gives."""

import re

import pytest

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.hub.chapters.parameters import sweep
from dpsgd_explorer.web.hub.widgets.noise import widget as noise
from dpsgd_explorer.web.recorded.runs import recorded
from tools.record.sweep import SWEPT

STORED = sweep.stored()


def test_all_runs_are_the_default_run_but_for_what_is_swept():
    usual = TrainingConfig.parse({"evaluations": 1})
    assert not set(SWEPT) & STORED["config"].keys()
    assert TrainingConfig.parse(STORED["config"]) == usual
    for row in STORED["rows"]:
        for rate, reach in zip(row["learning_rate"], STORED["reaches"], strict=True):
            longest = rate * row["max_grad_norm"] / (1 - row["momentum"])
            assert longest == pytest.approx(reach)


def test_the_default_run_is_one_of_them_and_reached_what_was_recorded():
    run = recorded("mnist")
    own = run.config
    [row] = [
        row
        for row in STORED["rows"]
        if (row["max_grad_norm"], row["momentum"]) == (own.max_grad_norm, own.momentum)
    ]
    place = row["learning_rate"].index(own.learning_rate)
    assert row["test_accuracy"][place] == run.summary["test_accuracy"]


def test_the_product_matters_and_not_the_bound():
    rows = [row["test_accuracy"] for row in STORED["rows"]]
    down = max(max(column) - min(column) for column in zip(*rows, strict=True))
    along = min(max(row) - min(row) for row in rows)
    assert down < 0.01 < along
    assert sweep.bound_factor() == "1,000"


def test_a_range_holds_all_that_is_close_and_nothing_else():
    rows = STORED["rows"]
    best = max(max(row["test_accuracy"]) for row in rows)
    low, high = map(float, sweep.good_reaches().split(" to "))
    for i, reach in enumerate(STORED["reaches"]):
        worst = min(row["test_accuracy"][i] for row in rows)
        assert (low <= reach <= high) == (best - worst <= sweep.CLOSE)
    levels = noise.stored()["levels"]
    reached = {one["noise_multiplier"]: sum(one["test_accuracy"]) / 3 for one in levels}
    for sigma, accuracy in reached.items():
        is_close = max(reached.values()) - accuracy <= sweep.CLOSE
        assert (sigma <= float(sweep.good_noise())) == is_close
    assert sweep.close_points() == f"{100 * sweep.CLOSE:.1f}"


def test_the_table_prints_every_run(reading):
    text = reading.get("/learn/parameters/").text
    table = text.split('id="sweep"')[1].split("</table>")[0]
    cells = [float(cell) for cell in re.findall(r">([\d.]+)</t[dh]>", table)]
    expected = [
        value
        for row in STORED["rows"]
        for value in (
            row["max_grad_norm"],
            row["momentum"],
            *(100 * accuracy for accuracy in row["test_accuracy"]),
        )
    ]
    assert cells[-len(expected) :] == pytest.approx(expected, abs=0.0501)
