"""Processes are kept warm, as many as runs may begin, while memory lasts."""

import itertools
import os
import signal

import pytest

from dpsgd_explorer.machine import PROCESS_MIB
from dpsgd_explorer.runs.worker import process_pool
from dpsgd_explorer.runs.worker.process_pool import ProcessPool, TrainingProcess
from dpsgd_explorer.settings import Settings
from tests.runs.system_processes import wait_until


class Sleeper(TrainingProcess):
    program = ("-c", "import time; time.sleep(60)")


class WarmSleeper(TrainingProcess):
    program = ("-c", "import time; print('warm 2.5', flush=True); time.sleep(60)")


class SleepyPool(ProcessPool):
    """Its processes sleep instead of training; ``started`` has them all."""

    def __init__(self, settings):
        super().__init__(settings, lease_s=1.0)
        self.started = []
        self.process = Sleeper

    def _start(self):
        self.started.append(self.process(self._settings, self._lease_s))
        return self.started[-1]


@pytest.fixture
def sleepy_crew(tmp_path):
    given = {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_WORKERS": "3"}
    made = SleepyPool(Settings.from_environment(given))
    yield made
    made.close()
    for process in made.started:
        process.end()


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(process_pool, "SPARE_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(process_pool, "MAX_LOADING_SECONDS", 0.0)


def test_the_spare_is_handed_out_and_replaced_after_a_while(sleepy_crew, monkeypatch):
    sleepy_crew.keep_warm(beside_runs=False)
    sleepy_crew.keep_warm(beside_runs=False)
    (spare,) = sleepy_crew.started  # the second one lets it load first
    assert sleepy_crew.take() is spare
    sleepy_crew.keep_warm(beside_runs=False)
    assert sleepy_crew.started == [spare]  # a run has just begun with it
    monkeypatch.setattr(process_pool, "SPARE_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(process_pool, "MAX_LOADING_SECONDS", 0.0)
    second = sleepy_crew.take()
    assert sleepy_crew.started == [spare, second]
    sleepy_crew.keep_warm(beside_runs=False)
    assert len(sleepy_crew.started) == 3


def test_as_many_are_warm_as_runs_may_begin_and_the_oldest_goes_first(
    sleepy_crew, at_once
):
    for _ in range(5):
        sleepy_crew.keep_warm(beside_runs=False)
    first, second, third = sleepy_crew.started
    assert [sleepy_crew.take() for _ in range(3)] == [first, second, third]
    for _ in range(5):
        sleepy_crew.keep_warm(beside_runs=True)
    assert len(sleepy_crew.started) == 6


def test_they_load_one_after_another_and_one_that_has_loaded_is_taken_first(
    sleepy_crew,
):
    for _ in range(3):
        sleepy_crew.keep_warm(beside_runs=False)
    [loading] = sleepy_crew.started
    sleepy_crew.process = WarmSleeper
    loading.load_seconds = 3.0  # as if it had reported
    sleepy_crew.keep_warm(beside_runs=False)
    loading.load_seconds = None
    warm = sleepy_crew.started[1]
    wait_until(lambda: warm.is_warm)
    assert warm.load_seconds == 2.5
    assert sleepy_crew.take() is warm
    assert sleepy_crew.load_seconds == 2.5
    assert sleepy_crew.take() is loading


def test_no_spare_loads_beside_a_process_whose_run_waits_for_it(
    sleepy_crew, monkeypatch
):
    monkeypatch.setattr(process_pool, "SPARE_DELAY_SECONDS", 0.0)
    waited_for = [sleepy_crew.take(), sleepy_crew.take()]
    sleepy_crew.keep_warm(beside_runs=True)
    assert sleepy_crew.started == waited_for
    waited_for[0].load_seconds = 3.0  # as if it had reported
    sleepy_crew.keep_warm(beside_runs=True)
    assert sleepy_crew.started == waited_for
    waited_for[1].end()
    sleepy_crew.keep_warm(beside_runs=True)
    assert len(sleepy_crew.started) == 3


def test_spares_that_die_are_tried_ever_more_seldom(sleepy_crew, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(process_pool.time, "monotonic", lambda: now)
    tried = []
    while now < 1400:
        before = len(sleepy_crew.started)
        sleepy_crew.keep_warm(beside_runs=False)
        for process in sleepy_crew.started[before:]:
            tried.append(now)
            os.kill(process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        now += 0.5
    gaps = [b - a for a, b in itertools.pairwise(tried)]
    assert gaps == sorted(gaps)
    assert gaps[-1] >= process_pool.MAX_DELAY_SECONDS
    assert len(tried) < 15


def test_a_second_spare_needs_free_memory(sleepy_crew, at_once, monkeypatch):
    monkeypatch.setattr(process_pool, "free_memory_mib", lambda: 2 * PROCESS_MIB - 1)
    for _ in range(5):
        sleepy_crew.keep_warm(beside_runs=False)
    assert len(sleepy_crew.started) == 1


def test_a_dead_spare_is_not_handed_out(sleepy_crew):
    sleepy_crew.keep_warm(beside_runs=False)
    (spare,) = sleepy_crew.started
    os.kill(spare.pid, signal.SIGKILL)
    assert spare.exit_code(5) == -signal.SIGKILL
    assert sleepy_crew.take() is not spare


@pytest.mark.parametrize(
    ("free_mib", "spares"),
    [(2 * PROCESS_MIB - 1, 0), (2 * PROCESS_MIB, 1)],
)
def test_beside_a_run_a_spare_needs_free_memory(
    sleepy_crew, monkeypatch, free_mib, spares
):
    monkeypatch.setattr(process_pool, "free_memory_mib", lambda: free_mib)
    sleepy_crew.keep_warm(beside_runs=True)
    assert len(sleepy_crew.started) == spares
