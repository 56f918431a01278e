"""A recorded run played again: every place is an event of the recording."""

from itertools import pairwise
from urllib.parse import parse_qsl

import pytest

from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.hub.widgets.recorded_run import widget
from dpsgd_explorer.web.hub.widgets.three_way_twin import widget as three_way_twin

REPLAYS = pytest.mark.parametrize("replay", widget.replays(), ids=lambda r: r.run.slug)


def test_every_preset_can_be_played_and_the_first_has_a_twin():
    assert {one.run.slug for one in widget.replays()} == {p.slug for p in PRESETS}
    first = widget.replays()[0]
    assert first.run.slug == widget.FIRST
    assert not first.twin.config.private
    assert first.twin.config.seed == first.run.config.seed
    assert [step for step, _ in first.twin.curve()] == first.data["steps"]
    rates = f"{three_way_twin.own_rate('ordinary'):g} instead of 8"
    assert f"learning rate {rates}" in first.settings


@REPLAYS
def test_every_place_is_an_evaluation_of_the_recording(replay):
    shown, events = replay.data, replay.run.data("evaluation")
    assert shown["steps"] == [event["step"] for event in events]
    assert shown["steps"][-1] == shown["last"] == replay.run.config.plan.steps
    for event, percent, words in zip(
        events, shown["accuracy"], shown["spent_words"], strict=True
    ):
        assert percent == pytest.approx(100 * event["test_accuracy"], abs=0.00501)
        assert event["epsilon"] <= float(words) < event["epsilon"] + 0.0101
    assert all(a <= b for a, b in pairwise(shown["spent"]))
    assert float(shown["budget"]) == replay.run.config.target_epsilon
    assert shown["floor"] < shown["accuracy"][-1]


@REPLAYS
def test_the_door_leads_to_the_trainer_with_the_settings_of_the_run(replay):
    query = dict(parse_qsl(replay.data["query"]))
    assert TrainingConfig.from_query(query) == replay.run.config


def test_what_was_recorded_as_spent_is_what_the_accountant_says():
    replay = widget.replays()[0]
    again = replay.run.config.plan.epsilons(replay.data["steps"])
    assert replay.spent == pytest.approx(again, rel=1e-6)


def test_half_of_the_steps_spend_more_than_half_of_epsilon():
    shown = widget.replays()[0].data
    near = min(range(len(shown["steps"])), key=lambda i: abs(shown["steps"][i] - 150))
    share = 100 * shown["spent"][near] / shown["spent"][-1]
    assert share > 60
    assert float(widget.spent_by_half()) == pytest.approx(share, abs=4)
