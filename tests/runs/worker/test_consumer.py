"""Real processes that are killed, stopped, cancelled and held to their limits."""

import os
import threading
import time
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest

from dpsgd_explorer.errors import StorageFullError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.own_tables import OwnTables
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.worker import child
from dpsgd_explorer.runs.worker.process_pool import ProcessPool, TrainingProcess
from dpsgd_explorer.runs.worker.supervision import HandOver, Supervision
from dpsgd_explorer.training import inputs
from tests.experiments.test_own_table import csv_of
from tests.runs.real_runs import (
    answering,
    long_config,
)
from tests.runs.system_processes import (
    PATIENCE_SECONDS,
    wait_until,
)


def features_of(settings):
    """How many rows of features are on the disk."""
    files = (settings.instance_dir / "cache").glob("*.sums")
    return sum(int(np.count_nonzero(np.fromfile(file, np.int64))) for file in files)


@pytest.mark.long("real runs")
def test_a_spare_computes_features_until_a_run_comes_that_needs_none(settings):
    store = RunStore.from_settings(settings)
    run = store.create(long_config(3), visitor="ann")
    pool = ProcessPool(settings, LEASE_SECONDS)
    process = pool.take()
    try:
        wait_until(lambda: features_of(settings))
        process.hand_over(store.leases.claim())
        assert process.exit_code(PATIENCE_SECONDS) == 0
    finally:
        process.end()
        pool.close()
    assert store.get(run.id).state == "done"
    assert 0 < features_of(settings) < 70_000
    store.database.close()


@pytest.mark.long("real runs")
def test_idle_work_pauses_while_all_cores_are_wanted(settings, monkeypatch):
    is_busy = True
    monkeypatch.setattr(child, "is_busy", lambda: is_busy)
    monkeypatch.setattr(child, "BUSY_SECONDS", 0.01)
    work = child.IdleWork(settings, SimpleNamespace(has_line=False))
    work.start()
    try:
        wait_until(lambda: features_of(settings))
        time.sleep(0.5)
        assert features_of(settings) <= inputs.AHEAD_ROWS
        is_busy = False
        wait_until(lambda: features_of(settings) > inputs.AHEAD_ROWS)
    finally:
        work.end()


def test_a_shutdown_puts_the_run_back_into_the_queue(consumer, own_children):
    worker = consumer()
    run = worker.store.create(long_config(100_000), visitor="ann")
    thread = answering(worker)
    wait_until(lambda: worker.store.get(run.id).step)
    worker.stop()
    thread.join(PATIENCE_SECONDS)
    assert worker.store.get(run.id).state == "queued"
    worker.close()
    assert own_children() == []


@pytest.mark.long("real runs")
def test_a_run_without_a_message_starts_when_a_place_is_free(consumer):
    worker = consumer()
    first, second = (
        worker.store.create(long_config(steps), visitor="ann") for steps in (100_000, 3)
    )

    def states():
        return [worker.store.get(run.id).state for run in (first, second)]

    worker.tend()
    worker.tend()
    assert states() == ["running", "queued"]
    wait_until(lambda: worker.store.get(first.id).step)
    worker.store.cancel(first.id, "ann")
    wait_until(lambda: worker.tend() or states() == ["cancelled", "done"])


def test_each_claim_is_followed_by_a_sign_of_life(consumer, monkeypatch):
    """Each may have waited for the database for seconds."""
    worker, beats, utime = consumer(workers=3), [], os.utime

    def noted(*args, **named):
        beats.append(worker.store.counts()["queued"])
        utime(*args, **named)

    for visitor in ("ann", "bob", "eve"):
        worker.store.create(long_config(3), visitor=visitor)
    monkeypatch.setattr(os, "utime", noted)
    worker.tend()
    assert list(dict.fromkeys(beats)) == [3, 2, 1, 0]


def test_every_minute_deleted_runs_and_old_tables_are_deleted(consumer, config):
    worker = consumer()
    store, huey = worker.store, worker.doorbell.huey
    run = store.create(config, visitor="ann")
    store.delete(run.id, "ann")
    tables = OwnTables(store.database, "ann", store.clock)
    draft = tables.add(csv_of())
    with store.database.write() as connection:
        for change in ("runs SET deleted_at = 0", "own_tables SET stored_at = 0"):
            connection.exec_driver_sql(f"UPDATE {change}")
    for minute in range(2):
        tasks = huey.read_periodic(datetime(2026, 1, 1, 12, minute))
        assert tasks
        for task in tasks:
            huey.execute(task)
    assert store.counts()["cancelled"] == 0
    assert tables.draft(draft.sha256) is None


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


TAKE_AND_ABORT = """
import os, time
held = bytearray({mib} * 2**20)
time.sleep(1)
os.abort()
"""


@pytest.mark.parametrize(("share", "code"), [(0.9, "memory_limit"), (0.1, "crashed")])
def test_a_process_that_aborts_near_its_limit_wanted_memory(
    store, settings, config, share, code
):
    """As torch does where a thread or an allocation is refused."""
    run = store.create(config, visitor="ann")
    limited = replace(settings, run_memory_mib=600)
    process = Process(limited, TAKE_AND_ABORT.format(mib=round(share * 600)))
    Supervision(
        store.leases, store.leases.claim(), process, limited, threading.Event()
    ).watch()
    assert store.get(run.id).error["code"] == code


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
