"""A full disk and a locked database: reads go on, nothing that was stored is lost."""

import sqlite3
import threading

import pytest
import sqlalchemy

from dpsgd_explorer.errors import (
    StorageBusyError,
    StorageFullError,
    StorageReadOnlyError,
)
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.database import sqlite
from dpsgd_explorer.runs.store.deletion import GRACE_SECONDS, UNDO_SECONDS
from dpsgd_explorer.runs.store.store import RunStore


def append_many(store, claim):
    for number in range(2, 50):
        store.leases.append(claim, [big_event(number)])


def launch_many(store, config):
    for _ in range(50):
        store.create(config, visitor="ann")


def big_event(number):
    return Event("step", {"step": number, "epsilon": 0.5, "text": "x" * 5000})


def test_a_full_disk_refuses_launches_and_events_and_serves_reads(
    store, config, fill_up
):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    store.leases.append(claim, [big_event(1)])
    fill_up()
    with pytest.raises(StorageFullError, match="disk is full"):
        append_many(store, claim)
    with pytest.raises(StorageFullError):
        launch_many(store, config)
    stored = store.get(run.id).last_seq
    assert [event.seq for event in store.events(run.id)] == list(range(1, stored + 1))
    assert len(store.runs_of("ann")) == sum(store.counts().values())


def test_a_run_can_end_on_a_full_disk(store, config, fill_up):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    store.leases.save_checkpoint(claim, b"x" * 20_000)
    fill_up()
    with pytest.raises(StorageFullError):
        append_many(store, claim)
    reason = {"code": "storage_full", "message": "storage full: no room."}
    store.leases.finish(claim, "interrupted", error=reason)
    assert store.get(run.id).state == "interrupted"
    assert store.events(run.id)[-1].ends_run


def test_a_file_that_takes_no_writes_says_so_and_can_be_read(store, config):
    run = store.create(config, visitor="ann")
    engine = store.database.engine

    def forbid(connection, _record):
        connection.execute("PRAGMA query_only = 1")

    sqlalchemy.event.listen(engine, "connect", forbid)
    engine.dispose()  # what is forbidden belongs to a connection
    with pytest.raises(StorageReadOnlyError, match="is read-only now"):
        store.create(config, visitor="ann")
    assert store.get(run.id) == run
    sqlalchemy.event.remove(engine, "connect", forbid)
    engine.dispose()
    assert store.create(config, visitor="ann").state == "queued"


def test_after_room_was_made_everything_goes_on(store, config, clock, fill_up):
    old, run = (store.create(config, visitor="ann") for _ in range(2))
    first, second = store.leases.claim(old.id), store.leases.claim(run.id)
    store.leases.append(first, [big_event(number) for number in range(1, 20)])
    fill_up()
    with pytest.raises(StorageFullError):
        store.leases.append(second, [big_event(number) for number in range(1, 20)])
    assert store.get(run.id).last_seq == 2
    store.delete(old.id, "ann")
    clock.forward(UNDO_SECONDS + GRACE_SECONDS + 1)
    assert store.purge(10) == 1
    store.leases.append(second, [big_event(number) for number in range(1, 10)])
    assert store.get(run.id).step == 9


@pytest.fixture
def lock(database_url):
    """Have another connection write; the event is set before it commits."""
    others = []

    def lock():
        path = database_url.removeprefix("sqlite:///")
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        others.append(other)
        committing = threading.Event()

        def commit():
            committing.set()
            other.execute("COMMIT")

        return commit, committing

    yield lock
    for other in others:
        other.close()


def test_a_locked_database_serves_reads_and_makes_writes_wait(store, config, lock):
    run = store.create(config, visitor="ann")
    commit, committing = lock()
    assert store.runs_of("ann") == [run]
    threading.Timer(0.3, commit).start()
    assert store.create(config, visitor="ann").state == "queued"
    assert committing.is_set()


def test_a_lock_is_waited_for_longer_than_sqlite_does(
    database_url, config, lock, monkeypatch
):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_SECONDS", 0.05)
    patient = RunStore(database_url)
    commit, committing = lock()
    threading.Timer(0.3, commit).start()
    assert patient.create(config, visitor="ann").state == "queued"
    assert committing.is_set()
    patient.database.close()


def test_a_writer_loses_patience_in_the_end(database_url, config, lock):
    hasty = RunStore(database_url, patience_s=0.1)
    commit, _ = lock()
    with pytest.raises(StorageBusyError, match="Try again soon"):
        hasty.create(config, visitor="ann")
    commit()
    assert hasty.create(config, visitor="ann").state == "queued"
    hasty.database.close()
