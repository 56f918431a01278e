"""A database that is locked, full or away while a run trains; a clock that is wrong."""

import contextlib
import sqlite3
import time

import psycopg
import pytest

from dpsgd_explorer.errors import StorageFullError
from dpsgd_explorer.runs.database.postgresql import WRITERS_LOCK
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from tests.runs.faults.short_runs import ENDLESS, QUICK, RUN, undisturbed
from tests.runs.faults.sites import (
    POSTGRESQL,
    REDIS,
    SILENCE_SECONDS,
    sites,
)
from tests.runs.real_runs import assert_ended_as
from tests.runs.system_processes import is_alive

pytestmark = pytest.mark.timeout(600)
AWAY_SECONDS = 10
HOUR = 3600.0


@contextlib.contextmanager
def locked(url):
    """Keep every other process from writing."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
    else:
        with psycopg.connect(url.replace("+psycopg", "")) as other:
            other.execute("SELECT pg_advisory_xact_lock(%s)", [WRITERS_LOCK])
            yield


@sites()
def test_a_lock_held_for_ten_seconds_costs_no_lease(site):
    site.worker(lease_s=LEASE_SECONDS)
    run = site.launch(RUN)
    site.until(lambda: site.store.leases.checkpoint(run), 30)
    with locked(site.settings.database_url):
        before = site.store.get(run)
        time.sleep(AWAY_SECONDS)
        assert site.store.get(run) == before  # reads go on
    with site.listening(run) as heard:
        site.ended(run)
    assert before.step < RUN.steps
    assert heard.silence <= SILENCE_SECONDS
    assert_ended_as(undisturbed(RUN), site.store, run)
    assert site.fence_of(run) == 1


@sites(REDIS, POSTGRESQL)
def test_a_server_that_is_away_for_ten_seconds_is_waited_for(site, postgresql):
    site.worker(lease_s=LEASE_SECONDS)
    run = site.launch(RUN)
    site.until(lambda: site.store.leases.checkpoint(run), 30)
    before = site.store.get(run)
    postgresql.stop()
    time.sleep(AWAY_SECONDS)
    postgresql.start()
    with site.listening(run) as heard:
        site.ended(run)
        after = site.launch(QUICK)
        site.ended(after)
    assert before.step < RUN.steps
    assert heard.silence <= SILENCE_SECONDS
    assert_ended_as(undisturbed(RUN), site.store, run)
    assert site.store.get(after).state == "done"


@sites()
def test_a_full_disk_interrupts_a_run_and_later_ones_are_trained(site, fill):
    site.worker()
    run = site.launch(RUN)
    site.until(lambda: site.store.leases.checkpoint(run), 30)
    trainer = site.trainer_of(run)
    make_room = fill()
    try:
        site.until(lambda: not is_alive(trainer), 10)
        with pytest.raises(StorageFullError, match="disk is full"):
            launch_many(site, RUN)
        stored = site.store.events(run)  # reads go on
        assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
        if site.store.database.is_embedded:  # it has kept room for this
            site.ended(run)
    finally:
        make_room()
    site.store.forget_visitor("bob")
    ended = site.ended(run)
    assert (ended.state, ended.error["code"]) == ("interrupted", "storage_full")
    log = site.store.events(run)
    assert log[: len(stored)] == stored
    after = site.until(lambda: launched(site, RUN), 5)
    site.ended(after)
    assert_ended_as(undisturbed(RUN), site.store, after)


def launch_many(site, config):
    for _ in range(50):
        site.store.create(config, visitor="bob", name="n" * 60)


def launched(site, config):
    with contextlib.suppress(StorageFullError):
        return site.launch(config, visitor="carl")


@sites()
def test_a_worker_whose_clock_is_an_hour_ahead_takes_no_run(site):
    workers = [site.worker(), site.worker(offset_s=HOUR)]
    site.until(lambda: site.workers_seen() == len(workers), 10)
    run = site.launch(ENDLESS)
    site.until(lambda: site.store.get(run).step, 30)
    for worker in workers:  # each looks for lost runs at every beat
        for _ in range(3):
            beat = worker.heartbeat.stat().st_mtime_ns
            site.until(lambda b=beat, w=worker: w.heartbeat.stat().st_mtime_ns > b, 3)
    assert (site.store.get(run).state, site.fence_of(run)) == ("running", 1)
    site.store.cancel(run, "ann")
    assert site.ended(run, 5).state == "cancelled"
