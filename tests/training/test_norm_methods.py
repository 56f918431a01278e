"""A training records the norm methods that it has measured, and takes them again."""

import pytest

from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.events import norm_methods_of
from dpsgd_explorer.experiments.experiment import PerformanceSettings
from tests.dp.timers import prefer, refuse

pytestmark = pytest.mark.usefixtures("brief")

LSTM = {
    "dataset": "names",
    "model": "char_lstm",
    "noise_multiplier": 2.0,
    "steps": 3,
    "evaluations": 1,
    "expected_batch_size": 24,
}

#: A run whose plan is changed on the way.
CHANGEABLE = {"filter_epsilon": 8.0, "steps": 4}
CHANGES = [(2, {"expected_batch_size": 48})]


def start(norm_methods, checkpoint=None, changes=(), **settings):
    config = kinds.parse(LSTM | settings)
    performance = PerformanceSettings(norm_methods=norm_methods)
    return kinds.start(
        config, performance=performance, checkpoint=checkpoint, changes=changes
    )


def timeless(experiment):
    return [event.timeless() for event in experiment.events()]


def losses(log):
    return [data["diagnostics"]["loss"] for kind, data in log if kind == "step"]


def test_a_run_records_what_it_measured_and_repeats_it(monkeypatch):
    prefer(monkeypatch, "ghost")
    measured = timeless(start("measured"))
    record = norm_methods_of([data for kind, data in measured if kind == "phase"])
    assert list(record.values()) == ["ghost"]
    refuse(monkeypatch)
    assert timeless(start(record)) == measured
    estimated = timeless(start("estimated"))
    assert "norm_methods" not in estimated[0][1]
    assert losses(estimated) == pytest.approx(losses(measured))
    assert losses(estimated) != losses(measured)


def test_a_checkpoint_goes_on_with_the_methods_of_its_run(monkeypatch):
    prefer(monkeypatch, "instantiate")
    run = {"changes": CHANGES, **CHANGEABLE}
    whole = start("measured", **run)
    events = whole.events()
    before = [next(events).timeless() for _ in range(3)]
    checkpoint = whole.checkpoint()
    rest = [event.timeless() for event in events]
    assert "phase" in dict(rest)  # it names the methods, too
    refuse(monkeypatch)
    record = norm_methods_of([before[0][1]])
    assert timeless(start(record, checkpoint, **run)) == rest
    prefer(monkeypatch, "ghost")  # another processor: what the checkpoint holds decides
    assert timeless(start("measured", checkpoint, **run)) == rest


def test_the_plans_of_one_run_take_the_same_methods(monkeypatch):
    prefer(monkeypatch, "instantiate")
    log = timeless(start("measured", changes=CHANGES, **CHANGEABLE))
    first, second = [data["norm_methods"] for kind, data in log if kind == "phase"]
    assert first == second
    refuse(monkeypatch)
    assert timeless(start(first, changes=CHANGES, **CHANGEABLE)) == log


def test_a_run_without_privacy_has_no_norms_to_measure(monkeypatch):
    refuse(monkeypatch)
    assert "norm_methods" not in timeless(start("measured", private=False))[0][1]
