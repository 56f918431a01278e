"""Processes that are forked from one that has loaded: as good as those of their own."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.worker import fork_server, process_pool
from dpsgd_explorer.runs.worker.process_pool import ProcessPool
from dpsgd_explorer.settings import Settings
from tests.runs.real_runs import long_config, told
from tests.runs.system_processes import (
    PATIENCE_SECONDS,
    children_of,
    is_alive,
    name_of,
    trainer_of,
    wait_until,
)

SPARE = "spare"


@contextmanager
def opened(folder):
    """Give a store, and a pool whose runs compute with two threads."""
    given = {"DPSGD_INSTANCE_DIR": str(folder), "DPSGD_THREADS": "2"}
    settings = Settings.from_environment(given)
    store, pool = RunStore.from_settings(settings), ProcessPool(settings, LEASE_SECONDS)
    yield store, pool
    pool.close()
    store.database.close()


@pytest.fixture
def site(tmp_path):
    """Store and pool; nothing is loaded yet."""
    with opened(tmp_path) as both:
        yield both


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Store and pool; its fork server has loaded.  The thread that asked is gone."""

    def load(pool):
        process = pool.take()
        wait_until(lambda: process.is_warm)
        process.end()

    with opened(tmp_path_factory.mktemp("site")) as both:
        asked = threading.Thread(target=load, args=both[1:])
        asked.start()
        asked.join(PATIENCE_SECONDS)
        yield both


def begun(pool):
    """Return a process that waits for its run."""
    process = pool.take()
    wait_until(lambda: process.pid and name_of(process.pid) == SPARE)
    return process


def handed_over(store, process, steps=3):
    """Give a process a run; return the run's id."""
    run_id = store.create(long_config(steps), visitor="ann").id
    process.hand_over(store.leases.claim())
    return run_id


def named(name, before=frozenset()):
    """Return our children of this name."""
    return {pid for pid in children_of(os.getpid()) if name_of(pid) == name} - before


def test_forks_of_one_server_train_with_threads_and_all_alike(loaded):
    store, pool = loaded
    runs = []
    for _ in range(3):
        process = pool.take()
        runs.append(handed_over(store, process))
        assert process.exit_code(PATIENCE_SECONDS) == 0
        process.close()
    assert [store.get(run).state for run in runs] == ["done"] * 3
    first, second, third = [told(store, run) for run in runs]
    assert first == second == third


def test_a_fork_is_a_child_of_ours_with_a_group_and_the_name_of_its_run(loaded):
    store, pool = loaded
    process = begun(pool)
    assert process.pid in children_of(os.getpid())
    assert os.getpgid(process.pid) == process.pid
    run = handed_over(store, process, steps=100_000)
    wait_until(lambda: store.get(run).step)
    assert trainer_of(run) == process.pid
    assert process.exit_code() is None
    os.kill(process.pid, signal.SIGKILL)
    assert process.exit_code(PATIENCE_SECONDS) == -signal.SIGKILL
    process.close()


def test_a_fork_that_is_ended_is_gone(loaded):
    _, pool = loaded
    process = begun(pool)
    process.end()
    assert process.exit_code() == -signal.SIGTERM
    assert not is_alive(process.pid)


def test_a_fork_dies_when_nobody_writes_to_it_any_more(loaded):
    _, pool = loaded
    process = begun(pool)
    process.close()
    assert process.exit_code(PATIENCE_SECONDS) == 0


@pytest.mark.long("real runs")
def test_a_process_that_is_ended_before_it_exists_never_does(site):
    _, pool = site
    before = named(SPARE)
    never, later = pool.take(), pool.take()
    assert never.pid is None
    never.end()
    assert never.exit_code() == -signal.SIGTERM
    wait_until(lambda: named(SPARE, before))
    wait_until(lambda: later.pid)
    assert named(SPARE, before) == {later.pid}
    later.end()


@pytest.mark.long("real runs")
def test_runs_outlive_their_fork_server_and_another_is_started(site):
    store, pool = site
    before = named(fork_server.NAME)
    process = begun(pool)
    run = handed_over(store, process, steps=300)
    (server,) = named(fork_server.NAME, before)
    os.kill(server, signal.SIGKILL)
    assert process.exit_code(PATIENCE_SECONDS) == 0
    assert store.get(run).state == "done"
    process.close()
    other = begun(pool)
    assert named(fork_server.NAME, before) - {server}
    other.end()


def test_a_process_whose_server_dies_before_it_exists_counts_as_killed(site):
    _, pool = site
    before = set(children_of(os.getpid()))
    process = pool.take()
    (server,) = set(children_of(os.getpid())) - before
    os.kill(server, signal.SIGKILL)
    assert process.exit_code(PATIENCE_SECONDS) == -signal.SIGKILL
    assert process.pid is None
    process.end()


def test_a_fork_server_outlives_the_thread_that_asked_for_it(loaded):
    _, pool = loaded
    servers = named(fork_server.NAME)
    assert len(servers) == 1
    process = begun(pool)
    assert named(fork_server.NAME) == servers
    time.sleep(0.5)
    assert process.exit_code() is None
    process.end()


def test_a_fork_server_that_is_dying_is_asked_for_nothing(loaded):
    """The last test of ``loaded``, whose server it kills."""
    _, pool = loaded
    begun(pool).end()
    (server,) = named(fork_server.NAME)
    os.kill(server, signal.SIGSTOP)
    first = pool.take()  # asked before its death
    os.kill(server, signal.SIGKILL)
    assert first.exit_code(PATIENCE_SECONDS) == -signal.SIGKILL
    process = begun(pool)
    first.end()
    assert named(fork_server.NAME, {server})
    process.end()


def test_a_fork_server_whose_worker_dies_at_once_loads_nothing(tmp_path):
    code = (
        "import os, signal\n"
        "from dpsgd_explorer.runs.worker.forked_process import ForkServer\n"
        "server = ForkServer(['9'], dict(os.environ))\n"
        "print(server._popen.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"DPSGD_INSTANCE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    server = int(killed.stdout)
    wait_until(lambda: not is_alive(server) or "sqlalchemy" in mapped(server))
    assert not is_alive(server)


def mapped(pid):
    """Return the names of the files that a process has mapped."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/maps").read_text()
    return ""


@pytest.mark.long("real runs")
def test_a_pool_that_is_closed_leaves_no_process(tmp_path):
    before = set(children_of(os.getpid()))
    with opened(tmp_path) as (_, pool):
        pool.keep_warm(beside_runs=False)
        wait_until(lambda: named(SPARE, before))
    assert set(children_of(os.getpid())) == before


@pytest.mark.long("real runs")
def test_where_nothing_is_forked_a_process_loads_for_its_own_run(tmp_path, monkeypatch):
    monkeypatch.setattr(process_pool, "can_fork", lambda: False)
    before = named(fork_server.NAME)
    with opened(tmp_path) as (store, pool):
        process = pool.take()
        run = handed_over(store, process)
        assert process.exit_code(PATIENCE_SECONDS) == 0
        assert store.get(run).state == "done"
        assert not named(fork_server.NAME, before)
        process.close()
