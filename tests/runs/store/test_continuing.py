"""Which runs are continued, by whom, how often and how far."""

import json
import threading

import pytest

from dpsgd_explorer.errors import ConfigError, QuotaError, RunNotFoundError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store import remains
from dpsgd_explorer.runs.store.store import RunStore
from tests.runs.real_runs import CHEAP
from tests.runs.servers import DATABASES as DATABASES
from tests.stored_runs import ADULT, log_of, phase_of, store_run

TINY = {"noise_multiplier": 1.0, "steps": 6, "evaluations": 2}
BUDGET = TINY | {"filter_epsilon": 6.0}
PHASE = phase_of(TrainingConfig.parse({**ADULT, **BUDGET, "target_epsilon": None}))


@pytest.fixture
def done(store):
    return store_run(store, "ann", **BUDGET)


def refused(store, run_id, steps=2, visitor="ann"):
    """Return why a run is not continued; asking for the price says the same."""
    with pytest.raises(ConfigError) as error:
        store.continuing.go_on(run_id, steps, visitor=visitor)
    with pytest.raises(ConfigError) as asked:
        store.continuing.check(run_id, steps)
    assert str(asked.value) == str(error.value)
    assert error.value.field == "further_steps"
    return str(error.value)


def test_a_run_takes_over_the_log_of_the_one_that_it_continues(store, done):
    child = store.get(store.continuing.go_on(done, 2, visitor="ann"))
    before, after = (
        [(e.kind, e.data) for e in store.events(x)] for x in (done, child.id)
    )
    assert after[0] == ("state", '{"state":"queued"}')
    left = [entry for entry in before if entry[0] not in ("state", "end")]
    assert after[1:] == left
    seqs = [event.seq for event in store.events(child.id)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert child.last_seq == seqs[-1]
    assert store.continuing.continuation_of(done) == child.id
    assert store.continuing.continuation_of(child.id) == ""


def test_a_run_by_plan_is_not_continued_and_says_why(store):
    planned = store_run(store, "ann", **TINY)
    assert "a plan fixed beforehand" in refused(store, planned)
    assert "A run with a budget for changes" in refused(store, planned)


def test_a_run_without_privacy_is_continued(store):
    open_run = store_run(store, "ann", private=False, **TINY)
    child = store.continuing.go_on(open_run, 2, visitor="ann")
    assert store.get(child).steps == 8


def test_a_clipping_bound_that_ends_with_the_steps_is_not_stretched(store):
    values = TINY | {"noise_multiplier": 0.0, "clipping_schedule": "linear"}
    assert "follows a schedule" in refused(store, store_run(store, "ann", **values))


@pytest.mark.parametrize("state", ["failed", "running"])
def test_a_run_that_is_not_over_is_not_continued(store, state):
    run_id = store_run(store, "ann", state, until=3, **BUDGET)
    assert f"its state is {state!r}" in refused(store, run_id)


def test_a_run_at_its_wall_has_no_step_left(store):
    at_wall = store_run(store, "ann", **BUDGET | {"steps": 400, "filter_epsilon": 3.0})
    assert store.get(at_wall).step < 400
    assert "allows no further step" in refused(store, at_wall)


@pytest.mark.parametrize("steps", [0, -1])
def test_a_run_is_not_shortened(store, done, steps):
    assert "must be at least 1" in refused(store, done, steps)


def test_another_kind_of_run_is_not_continued(store):
    run = store.create(RegressionConfig.parse(CHEAP["regression"]), visitor="ann")
    claim = store.leases.claim(run.id)
    store.leases.append(claim, [Event("step", {"step": 1, "epsilon": 1.0})])
    store.leases.finish(claim, "done")
    assert "a run of kind regression" in refused(store, run.id)


def test_a_run_is_continued_by_its_visitor_alone(store, done):
    with pytest.raises(RunNotFoundError):
        store.continuing.go_on(done, 2, visitor="bob")
    store.delete(done, "ann")
    with pytest.raises(RunNotFoundError):
        store.continuing.go_on(done, 2, visitor="ann")


def test_a_run_is_continued_once_though_two_ask_at_once(store, done):
    made, refusals = [], []

    def ask():
        try:
            made.append(store.continuing.go_on(done, 2, visitor="ann"))
        except ConfigError as error:
            refusals.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [child] = made
    assert len(refusals) == 3
    assert all(child in words for words in refusals)


def test_a_run_that_was_stopped_is_continued_from_the_steps_it_took(store):
    stopped = store_run(store, "ann", "cancelled", until=3, **BUDGET)
    child = store.get(store.continuing.go_on(stopped, 2, visitor="ann"))
    assert (child.step, child.steps) == (3, 5)
    assert child.id in refused(store, stopped)
    none = store_run(store, "ann", "cancelled", until=0, **BUDGET)
    assert "before its first step" in refused(store, none)
    planned = store_run(store, "ann", "cancelled", until=3, **TINY)
    assert "a plan fixed beforehand" in refused(store, planned)


def test_a_checkpoint_of_a_stopped_run_keeps_its_place_in_the_log(store):
    config = TrainingConfig.parse({**ADULT, **BUDGET, "target_epsilon": None})
    run = store.create(config, visitor="ann")
    claim = store.leases.claim(run.id)
    log = log_of(config, until=4)
    store.leases.append(claim, log[:3])
    store.leases.save_checkpoint(claim, b"state")
    store.leases.append(claim, log[3:])
    store.leases.finish(claim, "cancelled")
    child = store.continuing.go_on(run.id, 2, visitor="ann")
    kept, whole = store.leases.checkpoint(child), store.events(child)
    at = json.loads(whole[kept.seq - 1].data)
    assert (kept.data, at["step"]) == (b"state", log[2].data["step"])
    assert store.get(child).last_seq > kept.seq


@pytest.mark.parametrize("has_begun", [False, True], ids=["ordered", "logged"])
def test_no_two_runs_continue_the_steps_of_one(store, done, has_begun):
    """Not even by way of a continuation that was stopped before its first step."""
    child = store.continuing.go_on(done, 2, visitor="ann")
    claim = store.leases.claim(child)
    if has_begun:
        changed = {"step": 6, "steps": 8, "changes": {"further_steps": 2}}
        store.leases.append(claim, [Event("phase", PHASE | changed)])
    store.leases.finish(claim, "cancelled")
    assert "before its first further step" in refused(store, child)
    store.continuing.go_on(done, 3, visitor="ann")
    assert "before its first further step" in refused(store, child)


def test_a_continuation_that_took_no_step_leaves_the_run_to_another(store, done):
    child = store.continuing.go_on(done, 2, visitor="ann")
    store.cancel(child, "ann")
    assert store.continuing.continuation_of(done) == ""
    again = store.continuing.go_on(done, 3, visitor="ann")
    assert store.get(again).steps == 9


def test_a_continuation_that_was_stopped_in_its_steps_was_one(store, done):
    child = store.continuing.go_on(done, 2, visitor="ann")
    claim = store.leases.claim(child)
    changed = {"step": 6, "steps": 8, "changes": {"further_steps": 2}}
    store.leases.append(claim, [Event("phase", changed), Event("step", {"step": 7})])
    store.leases.finish(claim, "cancelled")
    assert store.continuing.continuation_of(done) == child
    assert child in refused(store, done)


def test_a_continued_run_counts_for_quota_and_bound(database_url):
    store = RunStore(database_url, quotas=Quotas(launches_a_day=1), cost_limit=1e9)
    done = store_run(store, "ann", **BUDGET)
    assert "multiply-adds" in refused(store, done, 90_000)
    assert "at most 100000" in refused(store, done, 900_000)
    with pytest.raises(QuotaError):
        store.continuing.go_on(done, 2, visitor="ann")
    assert [run.id for run in store.runs_of("ann")] == [done]
    store.database.close()


def left(store, clock, size, state="done", further=False):
    """End a run that has just stored a checkpoint; return its id."""
    clock.forward(1)
    config = RegressionConfig.parse(CHEAP["regression"])
    run = store.create(config, visitor="ann")
    claim = store.leases.claim(run.id)
    store.leases.append(claim, [Event("step", {"step": 1, "epsilon": 1.0})])
    store.leases.save_checkpoint(claim, bytes(size))
    if further:
        store.leases.append(claim, [Event("step", {"step": 2, "epsilon": 1.0})])
    store.leases.finish(claim, state)
    return run.id


def test_the_oldest_of_the_last_checkpoints_go_first(store, clock, monkeypatch):
    monkeypatch.setattr(remains, "MAX_TOTAL_BYTES", 250)
    ids = [left(store, clock, 100) for _ in range(4)]
    kept = [store.leases.checkpoint(run_id) is not None for run_id in ids]
    assert kept == [False, False, True, True]


def test_a_checkpoint_that_is_large_or_not_the_last_is_deleted(
    store, clock, monkeypatch
):
    monkeypatch.setattr(remains, "MAX_RUN_BYTES", 100)
    gone = [
        left(store, clock, 101),
        left(store, clock, 100, further=True),
        left(store, clock, 100, state="cancelled"),
    ]
    assert [store.leases.checkpoint(run_id) for run_id in gone] == [None] * 3
    assert store.leases.checkpoint(left(store, clock, 100)) is not None


def test_a_checkpoint_goes_with_its_run(store, clock):
    run_id = left(store, clock, 100)
    assert store.delete_ended(clock() + 1, 10) == 1
    assert store.leases.checkpoint(run_id) is None
