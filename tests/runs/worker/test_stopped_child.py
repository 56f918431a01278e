"""Training processes that are stopped, as by SIGSTOP or a freezer, and stay so."""

import os
import signal
import sqlite3
from contextlib import closing

import pytest

from dpsgd_explorer.runs.worker import outcomes
from dpsgd_explorer.runs.worker.process_pool import TrainingProcess
from tests.runs.real_runs import (
    answering,
    assert_cancelled,
    assert_ended_as,
    long_config,
)
from tests.runs.system_processes import (
    PATIENCE_SECONDS,
    is_alive,
    is_stopped,
    wait_until,
)

# What the tests wait for, so short.
LEASE_SECONDS = 3.0
# Any process that is not stopped has ended its write by then.
WRITE_SECONDS = 1.0


def can_be_written(settings):
    """Whether no stopped process holds the write lock of the database."""
    path = settings.database_url.removeprefix("sqlite:///")
    database = sqlite3.connect(path, timeout=WRITE_SECONDS, isolation_level=None)
    with closing(database):
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


def stop(pid, settings, *, in_a_write):
    """Stop a process inside, or outside, one of its write transactions."""

    def stopped():
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: is_stopped(pid))
        if can_be_written(settings) != in_a_write:
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    wait_until(stopped)


@pytest.mark.long("real runs")
def test_a_child_stopped_for_longer_than_its_lease_cannot_write(settings, consumer):
    store = consumer().store
    run = store.create(long_config(100_000), visitor="ann")
    process = TrainingProcess(settings, LEASE_SECONDS)
    process.hand_over(store.leases.claim())
    wait_until(lambda: store.get(run.id).step)
    stop(process.pid, settings, in_a_write=False)
    try:
        wait_until(store.leases.reap)
        assert store.leases.claim(run.id).fence == 2
        before = store.events(run.id)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert process.exit_code(PATIENCE_SECONDS) == outcomes.EXIT_LEASE_LOST
    process.close()
    assert store.events(run.id) == before


@pytest.mark.long("real runs")
def test_a_process_that_does_not_listen_is_cancelled_all_the_same(
    settings, consumer, own_children
):
    worker = consumer(LEASE_SECONDS)
    run = worker.store.create(long_config(100_000), visitor="ann")
    thread = answering(worker)
    step = wait_until(lambda: worker.store.get(run.id).step)
    [child] = own_children()
    stop(child, settings, in_a_write=False)
    worker.store.cancel(run.id, "ann")
    assert_cancelled(worker.store, run.id, at_least=step)
    thread.join(PATIENCE_SECONDS)
    assert own_children() == []


@pytest.mark.long("real runs")
def test_a_child_stopped_within_a_write_is_ended_and_its_run_goes_on(
    settings, consumer, killed_config, whole, own_children
):
    worker = consumer(LEASE_SECONDS)
    run = worker.store.create(killed_config, visitor="ann")
    thread = answering(worker)
    wait_until(lambda: worker.store.leases.checkpoint(run.id))
    [child] = own_children()
    stop(child, settings, in_a_write=True)
    wait_until(lambda: not is_alive(child))
    assert can_be_written(settings)
    thread.join(PATIENCE_SECONDS)
    assert_ended_as(whole, worker.store, run.id)
