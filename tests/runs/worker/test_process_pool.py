"""Two processes are kept warm, unless the runs need their memory."""

import itertools
import os
import signal

import pytest

from dpsgd_explorer.runs.worker import limits, process_pool
from dpsgd_explorer.runs.worker.process_pool import ProcessPool, TrainingProcess
from dpsgd_explorer.settings import Settings


class Sleeper(TrainingProcess):
    program = ("-c", "import time; time.sleep(60)")


class SleepyPool(ProcessPool):
    """Its processes sleep instead of training; ``started`` has them all."""

    def __init__(self, settings):
        super().__init__(settings, lease_s=1.0)
        self.started = []

    def _start(self):
        self.started.append(Sleeper(self._settings, self._lease_s))
        return self.started[-1]


@pytest.fixture
def sleepy_crew(tmp_path):
    made = SleepyPool(Settings.from_environment({"DPSGD_INSTANCE_DIR": str(tmp_path)}))
    yield made
    made.close()
    for process in made.started:
        process.end()


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(process_pool, "SPARE_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(process_pool, "NEXT_SPARE_DELAY_SECONDS", 0.0)


def test_the_spare_is_handed_out_and_replaced_after_a_while(sleepy_crew, monkeypatch):
    sleepy_crew.keep_warm(beside_runs=False)
    sleepy_crew.keep_warm(beside_runs=False)
    (spare,) = sleepy_crew.started  # the second one lets it load first
    assert sleepy_crew.take() is spare
    sleepy_crew.keep_warm(beside_runs=False)
    assert sleepy_crew.started == [spare]  # a run has just begun with it
    monkeypatch.setattr(process_pool, "SPARE_DELAY_SECONDS", 0.0)
    second = sleepy_crew.take()
    assert sleepy_crew.started == [spare, second]
    sleepy_crew.keep_warm(beside_runs=False)
    assert len(sleepy_crew.started) == 3


def test_two_are_warm_and_the_older_goes_first(sleepy_crew, at_once):
    for _ in range(5):
        sleepy_crew.keep_warm(beside_runs=False)
    first, second = sleepy_crew.started
    assert [sleepy_crew.take(), sleepy_crew.take()] == [first, second]
    for _ in range(5):
        sleepy_crew.keep_warm(beside_runs=True)
    assert len(sleepy_crew.started) == 4


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
    assert gaps[-1] >= process_pool.LONGEST_DELAY_SECONDS
    assert len(tried) < 15


def test_a_second_spare_needs_free_memory(sleepy_crew, at_once, monkeypatch):
    monkeypatch.setattr(
        limits, "free_memory_mib", lambda: 2 * process_pool.SPARE_MIB - 1
    )
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
    [(2 * process_pool.SPARE_MIB - 1, 0), (2 * process_pool.SPARE_MIB, 1)],
)
def test_beside_a_run_a_spare_needs_free_memory(
    sleepy_crew, monkeypatch, free_mib, spares
):
    monkeypatch.setattr(limits, "free_memory_mib", lambda: free_mib)
    sleepy_crew.keep_warm(beside_runs=True)
    assert len(sleepy_crew.started) == spares
