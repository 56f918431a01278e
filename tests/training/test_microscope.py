"""A step under the microscope: the run is not disturbed; the figures are its own."""

import math

import pytest

from dpsgd_explorer.training import event_schedule, microscope
from dpsgd_explorer.training.dp_sgd import TrainingExperiment, train


def looked_at(config, steps):
    """Train and look at some steps; return all events and those of the microscope."""
    run = TrainingExperiment(config)

    def look():
        if run.step + 1 in steps:
            run.examine_next_step()

    events = list(run.events(look))
    shown = [event.data for event in events if event.kind == "microscope"]
    return [event for event in events if event.kind != "microscope"], shown


def timeless(events):
    return [event.timeless() for event in events]


@pytest.mark.parametrize("private", [True, False])
def test_looking_changes_nothing(adult, private):
    config = adult(private=private, steps=4)
    events, shown = looked_at(config, {1, 3})
    assert timeless(events) == timeless(train(config))
    assert [data["step"] for data in shown] == [1, 3]
    assert (shown[0]["max_grad_norm"] is None) == (not private)


def test_a_step_without_an_event_of_its_own_has_an_epsilon_too(adult, monkeypatch):
    monkeypatch.setattr(event_schedule, "MAX_STEP_EVENTS", 2)
    config = adult(steps=9, evaluations=1)
    events, [shown] = looked_at(config, {3})
    assert shown["step"] == 3
    assert shown["epsilon"] == config.plan.epsilons([3])[0]
    assert 3 not in [event.data["step"] for event in events if event.kind == "step"]


def test_the_sums_in_the_plane_are_those_of_the_step(adult, monkeypatch):
    monkeypatch.setattr(microscope, "MAX_POINTS", 10_000)  # all that were drawn
    config = adult(steps=2, noise_multiplier=1e-3, max_grad_norm=0.2)
    events, [shown] = looked_at(config, {2})
    measured = [event.data for event in events if event.kind == "step"][1]
    assert shown["shown"] == shown["records"] == measured["diagnostics"]["batch_size"]
    divisor = config.expected_batch_size
    clipped = math.hypot(*shown["arrows"]["clipped"]) * shown["shown"] / divisor
    assert shown["noisy_length"] == pytest.approx(clipped, rel=1e-2)
    assert math.hypot(*shown["arrows"]["noisy"]) == pytest.approx(clipped, rel=1e-2)
    ratio = shown["noise_length"] / clipped
    assert measured["diagnostics"]["noise_to_signal"] == pytest.approx(ratio, rel=1e-2)
