"""Training processes that are stopped, as by SIGSTOP or a freezer, and stay so."""

import os
import signal
from contextlib import closing

import pytest

from dpsgd_explorer.errors import StorageBusyError
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.worker import outcomes
from dpsgd_explorer.runs.worker.process_pool import ProcessPool
from tests.runs.faults.short_runs import ENDLESS, RUN, undisturbed
from tests.runs.faults.sites import LEASE_SECONDS, sites
from tests.runs.real_runs import assert_cancelled, assert_ended_as
from tests.runs.system_processes import is_alive, is_stopped

pytestmark = pytest.mark.timeout(600)
# Any process that is not stopped has ended its write by then.
WRITE_SECONDS = 1.0
# The process that watches another ends it: SIGTERM, then SIGKILL.
GRACE_SECONDS = 3.0


def can_be_written(site):
    """Whether no stopped process holds the write lock of the database."""
    url = site.settings.database_url
    try:
        with (
            closing(Database(url, patience_s=WRITE_SECONDS)) as database,
            database.write(ends=True),
        ):
            return True
    except StorageBusyError:
        return False


def stop(pid, site):
    """Stop a process outside its write transactions."""

    def stopped():
        os.kill(pid, signal.SIGSTOP)
        site.until(lambda: is_stopped(pid), WRITE_SECONDS)
        if can_be_written(site):
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    site.until(stopped, 10)


@sites()
def test_a_child_stopped_for_longer_than_its_lease_cannot_write(site):
    store = site.store
    run = store.create(ENDLESS, visitor="ann").id
    pool = ProcessPool(site.settings, LEASE_SECONDS)
    process = pool.take()
    process.hand_over(store.leases.claim())
    site.until(lambda: store.get(run).step, 30)
    stop(process.pid, site)
    try:
        site.until(store.leases.reap, LEASE_SECONDS)
        assert store.leases.claim(run).fence == 2
        before = store.events(run)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert process.exit_code(60) == outcomes.EXIT_LEASE_LOST
    process.close()
    pool.close()
    assert store.events(run) == before


@sites()
def test_a_process_that_does_not_listen_is_cancelled_all_the_same(site):
    site.worker()
    run = site.launch(ENDLESS)
    step = site.until(lambda: site.store.get(run).step, 30)
    trainer = site.trainer_of(run)
    stop(trainer, site)
    site.store.cancel(run, "ann")
    site.ended(run, GRACE_SECONDS + 1)
    assert_cancelled(site.store, run, at_least=step)
    site.until(lambda: not is_alive(trainer), WRITE_SECONDS)


@sites()
def test_a_child_stopped_within_a_write_is_ended_and_its_run_goes_on(site):
    order = site.folder / "stop"
    order.write_text("2")  # checkpoints
    site.worker(lease_s=2 * LEASE_SECONDS, STOP_ORDER=str(order))
    run = site.launch(RUN)
    site.until(lambda: site.store.get(run).step, 30)
    trainer = site.trainer_of(run)
    site.until(lambda: not order.exists(), 30)
    site.until(lambda: is_stopped(trainer), WRITE_SECONDS)
    assert not can_be_written(site)
    site.until(lambda: not is_alive(trainer), 2 * LEASE_SECONDS + GRACE_SECONDS + 1)
    assert can_be_written(site)
    site.ended(run)
    assert_ended_as(undisturbed(RUN), site.store, run)
