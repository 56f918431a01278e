"""A run that is paused, stepped, killed and resumed ends as if nothing had been."""

import json
import os
import signal
import threading

import pytest

from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.events import changes_of
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.worker import pausing
from dpsgd_explorer.runs.worker.child import carry_out
from dpsgd_explorer.training.dp_sgd import train
from tests.runs.real_runs import (
    CHEAP,
    answering,
    assert_ended_as,
    told,
)
from tests.runs.system_processes import PATIENCE_SECONDS, trainer_of, wait_until


@pytest.fixture
def config():
    return TrainingConfig.parse(CHEAP["training"])


@pytest.fixture
def in_thread(store, settings):
    """Carry out a claimed run beside the test."""

    def in_thread():
        claim = store.leases.claim()
        arguments = (store, claim, settings)
        thread = threading.Thread(
            target=carry_out, args=arguments, kwargs={"lease_s": LEASE_SECONDS}
        )
        thread.start()
        return thread

    return in_thread


def whole(config):
    return [event.timeless() for event in train(config)]


def timeless(experiment):
    return [event.timeless() for event in experiment.events()]


def until(store, run_id, state, step=None):
    def reached():
        run = store.get(run_id)
        return run.state == state and step in (None, run.step)

    wait_until(reached)


def microscopes(store, run_id):
    return [
        json.loads(event.data)
        for event in store.events(run_id)
        if event.kind == "microscope"
    ]


def test_a_run_is_paused_before_its_first_step_stepped_twice_and_resumed(
    store, config, in_thread
):
    run = store.create(config, visitor="ann")
    store.pauses.pause(run.id, "ann")
    thread = in_thread()
    until(store, run.id, "paused", 0)
    for step in (1, 2):
        store.pauses.take_step(run.id, "ann")
        until(store, run.id, "paused", step)
    shown = microscopes(store, run.id)
    assert [each["step"] for each in shown] == [1, 2]
    store.pauses.resume(run.id, "ann")
    thread.join(PATIENCE_SECONDS)
    assert_ended_as(whole(config), store, run.id)


def test_a_pause_longer_than_patience_gives_up_the_process_and_loses_nothing(
    store, config, in_thread, monkeypatch
):
    monkeypatch.setattr(pausing, "LINGER_SECONDS", 0.0)
    run = store.create(config, visitor="ann")
    store.pauses.pause(run.id, "ann")
    for step in range(3):  # each step in a process of its own
        in_thread().join(PATIENCE_SECONDS)
        run = store.get(run.id)
        assert (run.state, run.step, run.error) == ("paused", step, None)
        store.pauses.take_step(run.id, "ann")
    assert store.get(run.id).state == "queued"
    store.pauses.resume(run.id, "ann")
    in_thread().join(PATIENCE_SECONDS)
    assert_ended_as(whole(config), store, run.id)


def test_what_the_microscope_shows_fits_the_step(store, config, in_thread):
    run = store.create(config, visitor="ann")
    store.pauses.take_step(run.id, "ann")
    thread = in_thread()
    until(store, run.id, "paused", 1)
    store.pauses.take_step(run.id, "ann")
    until(store, run.id, "paused", 2)
    store.pauses.resume(run.id, "ann")
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    [shown] = microscopes(store, run.id)
    steps = [data for kind, data in told(store, run.id) if kind == "step"]
    measured = steps[1]["diagnostics"]
    assert shown["step"] == 2
    assert shown["records"] == measured["batch_size"] == len(shown["lengths"])
    assert shown["cut"] == pytest.approx(
        measured["clipped_fraction"] * shown["records"]
    )
    assert shown["lengths"] == sorted(shown["lengths"], reverse=True)
    assert len(shown["points"]) == len(shown["factors"]) == shown["shown"]
    bound = shown["max_grad_norm"]
    for (x, y), factor in zip(shown["points"], shown["factors"], strict=True):
        assert factor * (x * x + y * y) ** 0.5 <= bound * 1.001


CHANGE = {"learning_rate": 0.5, "max_grad_norm": 0.05}


def recorded_changes(store, run_id):
    return changes_of(store.phases_of([run_id])[run_id])


def test_settings_changed_in_mid_run_are_a_phase_that_can_be_repeated(
    store, config, in_thread
):
    run = store.create(config, visitor="ann")
    store.pauses.take_step(run.id, "ann")
    thread = in_thread()
    until(store, run.id, "paused", 1)
    store.pauses.change(run.id, "ann", {"learning_rate": 3.0})
    store.pauses.change(run.id, "ann", CHANGE)  # it was not taken up yet
    store.pauses.take_step(run.id, "ann")
    until(store, run.id, "paused", 2)
    store.pauses.resume(run.id, "ann")
    thread.join(PATIENCE_SECONDS)
    changes = recorded_changes(store, run.id)
    assert changes == [(1, CHANGE)]
    repeated = timeless(kinds.start(config, changes=changes))
    assert_ended_as(repeated, store, run.id)
    assert repeated != whole(config)
    spent = [data["epsilon"] for kind, data in repeated if kind == "end"]
    assert spent == [data["epsilon"] for kind, data in whole(config) if kind == "end"]


def test_a_change_outlives_the_process_that_made_it(
    store, config, in_thread, monkeypatch
):
    monkeypatch.setattr(pausing, "LINGER_SECONDS", 0.0)
    run = store.create(config, visitor="ann")
    store.pauses.take_step(run.id, "ann")
    in_thread().join(PATIENCE_SECONDS)
    store.pauses.change(run.id, "ann", CHANGE)
    store.pauses.take_step(run.id, "ann")
    in_thread().join(PATIENCE_SECONDS)
    store.pauses.resume(run.id, "ann")
    in_thread().join(PATIENCE_SECONDS)
    changes = [(1, CHANGE)]
    repeated = timeless(kinds.start(config, changes=changes))
    assert_ended_as(repeated, store, run.id)


PLAN_CHANGE = {"noise_multiplier": 1.5, "expected_batch_size": 300, "steps": 25}


def budgeted(config, **values):
    given = config.model_dump(mode="json") | {"filter_epsilon": 30.0} | values
    return TrainingConfig.parse(given)


def test_noise_batch_and_steps_change_in_mid_run_within_the_budget(
    store, config, in_thread, monkeypatch
):
    monkeypatch.setattr(pausing, "LINGER_SECONDS", 0.0)
    config = budgeted(config)
    run = store.create(config, visitor="ann")
    store.pauses.take_step(run.id, "ann")
    in_thread().join(PATIENCE_SECONDS)
    store.pauses.change(run.id, "ann", PLAN_CHANGE)
    assert store.pauses.config(run.id).steps == 25
    store.pauses.resume(run.id, "ann")
    in_thread().join(PATIENCE_SECONDS)
    assert recorded_changes(store, run.id) == [(1, PLAN_CHANGE)]
    repeated = timeless(kinds.start(config, changes=[(1, PLAN_CHANGE)]))
    assert_ended_as(repeated, store, run.id)
    done = store.get(run.id)
    assert (done.step, done.steps, done.summary["epsilon"]) == (25, 25, 30.0)


def paused_after(worker, run_id, steps):
    """Let a process take some steps, one by one; return the thread of the worker."""
    worker.store.pauses.take_step(run_id, "ann")
    thread = answering(worker)
    for step in range(1, steps):
        until(worker.store, run_id, "paused", step)
        worker.store.pauses.take_step(run_id, "ann")
    until(worker.store, run_id, "paused", steps)
    return thread


@pytest.mark.long("real runs")
@pytest.mark.parametrize("change", [CHANGE, PLAN_CHANGE], ids=["free", "counted"])
def test_a_process_killed_while_a_change_waits_makes_it_once(consumer, config, change):
    config, step = budgeted(config), 2
    worker = consumer()
    run = worker.store.create(config, visitor="ann")
    thread = paused_after(worker, run.id, step)
    child = trainer_of(run.id)
    worker.store.pauses.change(run.id, "ann", change)
    os.kill(child, signal.SIGKILL)
    thread.join(PATIENCE_SECONDS)
    worker.store.pauses.resume(run.id, "ann")
    answering(worker).join(PATIENCE_SECONDS)
    assert recorded_changes(worker.store, run.id) == [(step, change)]
    repeated = timeless(kinds.start(config, changes=[(step, change)]))
    assert_ended_as(repeated, worker.store, run.id)


@pytest.mark.long("real runs")
@pytest.mark.parametrize("change", [CHANGE, {"noise_multiplier": 1.5}], ids=str)
def test_a_process_killed_after_a_change_repeats_it(consumer, killed_config, change):
    killed_config = budgeted(killed_config)
    worker = consumer()
    run = worker.store.create(killed_config, visitor="ann")
    thread = paused_after(worker, run.id, 2)
    worker.store.pauses.change(run.id, "ann", change)
    worker.store.pauses.resume(run.id, "ann")
    wait_until(lambda: recorded_changes(worker.store, run.id))
    child = trainer_of(run.id)
    os.kill(child, signal.SIGKILL)
    thread.join(PATIENCE_SECONDS)
    changes = recorded_changes(worker.store, run.id)
    [(step, values)] = changes
    assert 0 < step < killed_config.steps
    assert values == change
    repeated = timeless(kinds.start(killed_config, changes=changes))
    assert_ended_as(repeated, worker.store, run.id)


@pytest.mark.long("real runs")
@pytest.mark.parametrize("asked", ["resume", "take_step"])
def test_a_process_killed_in_a_pause_loses_nothing(consumer, config, asked):
    worker, step = consumer(), 2
    run = worker.store.create(config, visitor="ann")
    thread = paused_after(worker, run.id, step)
    child = trainer_of(run.id)
    os.kill(child, signal.SIGKILL)
    thread.join(PATIENCE_SECONDS)
    assert worker.store.get(run.id).state == "paused"
    getattr(worker.store.pauses, asked)(run.id, "ann")
    assert worker.store.get(run.id).state == "queued"
    thread = answering(worker)
    if asked == "take_step":
        wait_until(lambda: worker.store.get(run.id).state == "paused")
        assert worker.store.get(run.id).step == step + 1
        worker.store.pauses.resume(run.id, "ann")
    thread.join(PATIENCE_SECONDS)
    assert_ended_as(whole(config), worker.store, run.id)
