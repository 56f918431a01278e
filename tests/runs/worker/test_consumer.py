"""Real processes that are killed, stopped, cancelled and held to their limits."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from dpsgd_explorer.errors import StorageFullError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.worker.process_pool import TrainingProcess
from dpsgd_explorer.runs.worker.supervision import HandOver, Supervision
from tests.runs.real_runs import (
    answering,
    assert_cancelled,
    assert_ended_as,
    long_config,
    start_worker,
)
from tests.runs.system_processes import (
    PATIENCE_SECONDS,
    children_of,
    is_alive,
    wait_until,
)


@pytest.mark.long("real runs")
def test_a_killed_child_is_resumed_and_its_run_ends_as_if_nothing_had_been(
    consumer, killed_config, whole, own_children
):
    worker = consumer()
    run = worker.store.create(killed_config, visitor="ann")
    thread = answering(worker)
    wait_until(lambda: worker.store.leases.checkpoint(run.id))
    before = worker.store.get(run.id)
    [child] = own_children()
    os.kill(child, signal.SIGKILL)
    thread.join(PATIENCE_SECONDS)
    assert before.step < killed_config.steps
    assert worker.store.leases.claim(run.id) is None
    assert_ended_as(whole, worker.store, run.id)


@pytest.mark.long("real runs")
def test_a_killed_consumer_leaves_no_orphan_and_the_next_start_resumes(
    consumer, settings, killed_config, whole
):
    front = consumer()
    run = front.store.create(killed_config, visitor="ann")
    front.doorbell.ring(run.id)
    first = start_worker(settings)
    wait_until(lambda: front.store.leases.checkpoint(run.id))
    children = children_of(first.pid)
    first.kill()
    first.wait()
    assert children
    wait_until(lambda: not any(map(is_alive, children)))
    assert front.store.get(run.id).state == "running"

    # The lease of the dead runs out by a clock that is a minute ahead.
    later = RunStore(settings.database_url, clock=lambda: time.time() + 60)
    assert later.leases.reap() == [run.id]
    later.database.close()

    second = start_worker(settings)
    wait_until(lambda: front.store.get(run.id).has_ended)
    children = children_of(second.pid)
    second.terminate()
    assert second.wait(PATIENCE_SECONDS) == 0
    assert not any(map(is_alive, children))
    assert_ended_as(whole, front.store, run.id)


@pytest.mark.long("real runs")
def test_a_running_run_is_cancelled_and_the_next_in_line_is_trained(consumer):
    worker = consumer()
    run = worker.store.create(long_config(100_000), visitor="ann")
    after = worker.store.create(long_config(3), visitor="bob")
    thread = answering(worker)
    step = wait_until(lambda: worker.store.get(run.id).step)
    worker.store.cancel(run.id, "ann")
    assert_cancelled(worker.store, run.id, at_least=step)
    thread.join(PATIENCE_SECONDS)
    assert worker.store.get(after.id).state == "done"


def features_of(settings):
    """How many rows of features are on the disk."""
    files = (settings.instance_dir / "cache").glob("*.sums")
    return sum(int(np.count_nonzero(np.fromfile(file, np.int64))) for file in files)


@pytest.mark.long("real runs")
def test_a_spare_computes_features_until_a_run_comes_that_needs_none(settings):
    store = RunStore.from_settings(settings)
    run = store.create(long_config(3), visitor="ann")
    process = TrainingProcess(settings, LEASE_SECONDS)
    try:
        wait_until(lambda: features_of(settings))
        process.hand_over(store.leases.claim())
        assert process.exit_code(PATIENCE_SECONDS) == 0
    finally:
        process.end()
    assert store.get(run.id).state == "done"
    assert 0 < features_of(settings) < 70_000
    store.database.close()


def message_of_failure(worker, config, code):
    """Carry out a run that fails with this code; return the error's message."""
    run = worker.store.create(config, visitor="ann")
    worker.answer(run.id)
    ended = worker.store.get(run.id)
    assert (ended.state, ended.error["code"]) == ("failed", code)
    return ended.error["message"]


def test_a_run_over_its_time_fails(consumer):
    worker = consumer(run_seconds=1)
    message = message_of_failure(worker, long_config(100_000), "time_limit")
    assert "after 1 seconds" in message


def test_a_run_that_wants_too_much_memory_fails(consumer):
    worker = consumer(run_memory_mib=600)
    sizes = {"expected_batch_size": 60_000, "steps": 5, "noise_multiplier": 1.0}
    config = TrainingConfig.parse({"model": "mlp"} | sizes)
    assert "(600 MiB)" in message_of_failure(worker, config, "memory_limit")


def test_a_shutdown_puts_the_run_back_into_the_queue(consumer, own_children):
    worker = consumer()
    run = worker.store.create(long_config(100_000), visitor="ann")
    thread = answering(worker)
    wait_until(lambda: worker.store.get(run.id).step)
    worker.stop()
    thread.join(PATIENCE_SECONDS)
    assert worker.store.get(run.id).state == "queued"
    assert own_children() == []


def test_a_lost_doorbell_is_rung_again(consumer):
    worker = consumer()
    run = worker.store.create(long_config(3), visitor="ann")
    worker.tend(overdue_s=60)
    assert worker.doorbell.huey.pending_count() == 0
    worker.tend(overdue_s=0)
    assert [task.args for task in worker.doorbell.huey.pending()] == [[run.id]]


def test_a_lease_is_kept_for_a_process_until_it_speaks(store, config, clock):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim(lease_s=2)
    hand_over = HandOver(store.leases, claim, lease_s=2)

    def tend_later():
        clock.forward(1)
        hand_over._due = 0.0
        hand_over.tend()

    for _ in range(5):
        tend_later()
    assert store.leases.reap() == []
    clock.forward(0.5)
    store.leases.heartbeat(claim, lease_s=2)  # the process itself
    tend_later()
    for _ in range(2):
        tend_later()
    assert store.leases.reap() == [run.id]


class Process(TrainingProcess):
    """Ends in its own way, whatever it is handed."""

    def __init__(self, settings, code):
        self.program = ("-c", code)
        super().__init__(settings, LEASE_SECONDS)


@pytest.mark.parametrize(
    ("code", "state", "error"),
    [
        ("import os; os.kill(os.getpid(), 11)", "failed", "crashed"),
        ("raise SystemExit(3)", "failed", "crashed"),
        ("pass", "failed", "crashed"),
        ("raise SystemExit(74)", "interrupted", "storage_full"),
        ("import os; os.kill(os.getpid(), 9)", "queued", None),
        ("import os; os.kill(os.getpid(), 15)", "queued", None),
        ("raise SystemExit(75)", "running", None),
    ],
    ids=[
        "signal",
        "exit code",
        "no outcome",
        "disk full",
        "killed",
        "asked to end",
        "lease lost",
    ],
)
def test_what_a_process_leaves_unsaid_is_stored_for_it(
    store, settings, config, code, state, error
):
    run = store.create(config, visitor="ann")
    process = Process(settings, code)
    Supervision(
        store.leases, store.leases.claim(), process, settings, threading.Event()
    ).watch()
    ended = store.get(run.id)
    assert (ended.state, (ended.error or {}).get("code")) == (state, error)


def append_for_ever(store, claim):
    while True:
        store.leases.append(claim, [Event("step", {"step": 1, "text": "x" * 500})])


def test_a_verdict_waits_until_there_is_room_for_it(store, settings, config, fill_up):
    run = store.create(config, visitor="ann", name="n" * 60)
    claim = store.leases.claim()
    make_room = fill_up()
    with pytest.raises(StorageFullError):
        append_for_ever(store, claim)
    watch = Supervision(
        store.leases,
        claim,
        Process(settings, "raise SystemExit(74)"),
        settings,
        threading.Event(),
    ).watch
    thread = threading.Thread(target=watch)
    thread.start()
    thread.join(1.5)
    assert thread.is_alive()
    assert store.get(run.id).state == "running"
    make_room()
    thread.join(PATIENCE_SECONDS)
    assert store.get(run.id).state == "interrupted"
