"""A database server that stops, comes back, or is read-only; nothing is lost."""

import contextlib
import threading
import time

import pytest
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from dpsgd_explorer.errors import (
    StorageBusyError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnreachableError,
)
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.database import postgresql as postgresql_module
from dpsgd_explorer.runs.store.store import RunStore

pytestmark = pytest.mark.long("servers")


@pytest.fixture
def store(postgresql_url):
    opened = RunStore(postgresql_url)
    yield opened
    opened.database.close()


def step(number):
    return Event("step", {"step": number, "epsilon": 0.5, "seconds": 0.1})


def test_a_server_that_stops_is_named_and_the_store_comes_back_by_itself(
    store, config, postgresql, caplog
):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    postgresql.stop()
    for act in (
        lambda: store.get(run.id),
        lambda: store.create(config, visitor="ann"),
        lambda: store.leases.append(claim, [step(1)]),
    ):
        with pytest.raises(StorageUnreachableError, match="No stored run is lost"):
            act()
    assert [line.getMessage()[:28] for line in caplog.records] == [
        "the database does not answer"
    ]
    postgresql.start()
    store.leases.append(claim, [step(1)])
    assert [each.kind for each in store.events(run.id)] == ["state", "state", "step"]


def test_a_patient_writer_waits_for_the_server(
    store, postgresql_url, config, postgresql
):
    patient = RunStore(postgresql_url, outage_s=float("inf"))
    store.create(config, visitor="ann")
    claim = store.leases.claim()
    postgresql.stop()
    done = []
    writer = threading.Thread(
        target=lambda: done.append(patient.leases.append(claim, [step(1)]))
    )
    writer.start()
    postgresql.start()
    writer.join(60)
    assert done == [3]
    patient.database.close()


@pytest.mark.parametrize("moment", ["before_commit", "commit"])
def test_a_commit_that_is_not_answered_is_looked_up(store, config, postgresql, moment):
    """The connection breaks right before the commit, or right after it was sent."""
    store.create(config, visitor="ann")
    claim = store.leases.claim()

    def break_off(connection):
        if store_writes(connection):
            driver = connection.connection.driver_connection
            if moment == "commit":
                driver.commit()
            pid = driver.info.backend_pid
            postgresql.ask(f"SELECT pg_terminate_backend({pid}, 5000)")

    event.listen(store.database.engine, "commit", break_off)
    if moment == "commit":
        assert store.leases.append(claim, [step(1)]) == 3
    else:
        with pytest.raises(StorageUnreachableError):
            store.leases.append(claim, [step(1)])
    event.remove(store.database.engine, "commit", break_off)
    stored = [each.kind for each in store.events(claim.run_id)]
    assert stored == ["state", "state"] + ["step"] * (moment == "commit")
    assert store.leases.append(claim, [step(2)]) == len(stored) + 1


def store_writes(connection):
    return connection.get_execution_options().get("writes")


def test_a_database_that_takes_no_writes_says_so_and_can_be_read(
    store, config, postgresql
):
    run = store.create(config, visitor="ann")
    postgresql.ask("ALTER DATABASE runs SET default_transaction_read_only = on")
    try:
        store.database.close()
        with pytest.raises(StorageReadOnlyError, match="is read-only"):
            store.create(config, visitor="ann")
        assert store.get(run.id) == run
    finally:
        postgresql.ask("ALTER DATABASE runs RESET default_transaction_read_only")
        store.database.close()
    assert store.create(config, visitor="ann").state == "queued"


def test_a_full_disk_of_the_server_is_named(store, config):
    store.create(config, visitor="ann")
    claim = store.leases.claim()
    full = "DO $$ BEGIN RAISE disk_full; END $$"
    with (
        pytest.raises(StorageFullError, match="server's disk is full"),
        store.database.write() as connection,
    ):
        connection.exec_driver_sql(full)
    assert store.leases.append(claim, [step(1)]) == 3


def test_a_writer_that_stands_still_does_not_keep_the_others_out_for_long(
    postgresql_url, config, monkeypatch
):
    monkeypatch.setattr(postgresql_module, "IDLE_SECONDS", 1)
    still, other = (RunStore(postgresql_url) for _ in range(2))
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(still.database.write())
        assert other.create(config, visitor="ann").state == "queued"
        with pytest.raises(DBAPIError, match="idle-in-transaction"):
            connection.exec_driver_sql("SELECT 1")
        stack.pop_all()
        connection.close()
    still.database.close()
    other.database.close()


def test_a_writer_loses_patience_in_the_end(postgresql_url, config, store):
    hasty = RunStore(postgresql_url, patience_s=0.1)
    with (
        store.database.write(),
        pytest.raises(StorageBusyError, match="Try again soon"),
    ):
        hasty.create(config, visitor="ann")
    assert hasty.create(config, visitor="ann").state == "queued"
    hasty.database.close()


def test_leases_are_counted_by_the_servers_clock(postgresql_url, config, monkeypatch):
    """A machine whose clock is an hour off takes no run from another."""
    store = RunStore(postgresql_url)
    store.create(config, visitor="ann")
    claim = store.leases.claim()
    ahead = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: ahead)
    other = RunStore(postgresql_url)
    assert other.leases.reap() == []
    assert other.leases.order(claim) == "continue"
    assert abs(other.clock() - store.clock()) < 1
    assert ahead - other.clock() > 3000
    other.database.close()
    store.database.close()


def test_events_become_visible_in_the_order_of_their_ids(store, postgresql_url, config):
    """Else a reader that goes on behind the newest id would miss some."""
    claims = []
    for visitor in "ab":
        store.create(config, visitor=visitor)
        claims.append(store.leases.claim())
    stores = [RunStore(postgresql_url) for _ in claims]

    def write(each, claim):
        for number in range(40):
            each.leases.append(claim, [step(number)])

    threads = [
        threading.Thread(target=write, args=pair)
        for pair in zip(stores, claims, strict=True)
    ]
    for thread in threads:
        thread.start()
    seen = []
    while any(thread.is_alive() for thread in threads) or len(seen) < 84:
        seen += store.events_since(seen[-1].id if seen else 0, 1000)
    assert len({each.id for each in seen}) == len(seen) == 84
    for each in stores:
        each.database.close()


def test_a_name_with_a_null_character_is_no_run(store):
    with pytest.raises(LookupError):
        store.get("\0")
