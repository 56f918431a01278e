"""Runs that real processes train, and what their logs must hold."""

import json
import os
import subprocess
import sys
import threading

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.training_config import TrainingConfig
from tests.runs.system_processes import wait_until

CHEAP = {
    "training": {
        "dataset": "adult",
        "model": "logistic",
        "expected_batch_size": 256,
        "noise_multiplier": 1.0,
        "steps": 20,
    },
    "regression": {
        "kind": "regression",
        "noise_multiplier": 50.0,
        "steps": 20,
        "repetitions": 3,
        "evaluations": 20,
    },
}


UNREPEATED = ("progress", "microscope")


def long_config(steps):
    return TrainingConfig.parse(CHEAP["training"] | {"steps": steps})


def told(store, run_id):
    """Return the training events in the log, times and reasons of silence aside."""
    log = [
        Event(event.kind, json.loads(event.data)).timeless()
        for event in store.events(run_id)
        if event.kind != "state"
    ]
    return [
        (kind, data) for kind, data in log if kind not in UNREPEATED or "done" in data
    ]


def assert_ended_as(whole, store, run_id):
    ended = store.get(run_id)
    assert (ended.state, ended.error) == ("done", None)
    assert told(store, run_id) == whole
    events = store.events(run_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    spent = [
        data["epsilon"]
        for kind, data in told(store, run_id)
        if kind in ("step", "evaluation", "end")
    ]
    assert spent == sorted(spent)


def start_worker(settings):
    return subprocess.Popen(
        [sys.executable, "-m", "dpsgd_explorer", "worker"],
        env=os.environ | settings.to_environment(),
    )


def answering(consumer):
    """Train queued runs, one after another, in a thread that ends with the last."""

    def answer():
        while (run := consumer.start_run()) is not None:
            run.join()

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def assert_cancelled(store, run_id, *, at_least):
    ended = wait_until(lambda: (run := store.get(run_id)).has_ended and run)
    assert (ended.state, ended.error) == ("cancelled", None)
    assert ended.summary["steps"] >= at_least
    assert ended.summary["epsilon"] > 0
    assert store.events(run_id)[-1].ends_run
