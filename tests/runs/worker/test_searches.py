"""Blind searches in real processes: what the store holds, and a kill on the way."""

import json
import os
import signal

import pytest

from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.worker.child import carry_out
from tests.runs.real_runs import CHEAP, answering, assert_ended_as, told
from tests.runs.system_processes import PATIENCE_SECONDS, trainer_of, wait_until

SEARCH = CHEAP["training"] | {
    "kind": "search",
    "noise_multiplier": 3.0,
    "mean_trials": 3.0,
    "evaluations": 2,
    "seed": 1,
}


@pytest.mark.long("real runs")
def test_the_store_holds_progress_and_the_winner_alone(store, settings):
    config = kinds.parse(SEARCH | {"steps": 3})
    run = store.create(config, visitor="ann")
    assert carry_out(store, store.leases.claim(), settings, lease_s=LEASE_SECONDS) == 0
    log = store.events(run.id)
    kinds_stored = [event.kind for event in log if event.kind != "progress"]
    assert kinds_stored == (
        ["state", "state", "phase"]
        + ["step"] * config.trainings
        + ["evaluation"] * 2
        + ["end", "state"]
    )
    for event in log:
        if event.kind == "step":
            assert json.loads(event.data).keys() == {
                "step",
                "epsilon",
                "seconds",
                "diagnostics",
            }
    assert store.get(run.id).steps == config.trainings
    assert store.weights(run.id)
    assert store.leases.checkpoint(run.id) is None  # it held the best on the way


@pytest.mark.long("real runs")
def test_a_search_whose_process_is_killed_ends_as_if_nothing_had_been(consumer):
    config = kinds.parse(SEARCH | {"steps": 150})
    whole = [event.timeless() for event in kinds.start(config).events()]
    worker = consumer()
    run = worker.store.create(config, visitor="ann")
    thread = answering(worker)
    wait_until(lambda: worker.store.get(run.id).step > 0)
    before = worker.store.get(run.id)
    child = trainer_of(run.id)
    os.kill(child, signal.SIGKILL)
    thread.join(PATIENCE_SECONDS)
    assert 0 < before.step < config.trainings
    assert_ended_as(whole, worker.store, run.id)
    assert told(worker.store, run.id)[-1][1]["winner"] == whole[-1][1]["winner"]
