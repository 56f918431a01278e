"""Times of steps, by a clock that the work moves and that ticks seldom."""

import time

import pytest

from dpsgd_explorer.training.timing import Step, cpu_seconds, time_in_turns

TICK = 0.01


@pytest.fixture
def work(monkeypatch):
    """Return a function that takes some seconds, by the clock of the test."""
    now = [0.0]

    def taking(seconds):
        def run():
            now[0] += seconds

        return run

    monkeypatch.setattr(time, "process_time", lambda: now[0] // TICK * TICK)
    return taking


def test_steps_shorter_than_a_tick_of_the_clock_are_timed(work):
    steps = {"one": Step(work(2e-4)), "three": Step(work(6e-4))}
    timings = time_in_turns(steps, 0.5)
    assert timings["one"].milliseconds == pytest.approx(0.2, rel=0.25)
    assert timings["one"].ratio == 1.0
    assert timings["three"].ratio == pytest.approx(3, rel=0.25)
    assert timings["three"].low <= timings["three"].ratio <= timings["three"].high


def test_long_work_is_not_repeated(work):
    durations = iter([0.4, 0.1, 0.2, 0.3, 0.1, 0.2])

    def run():
        work(next(durations))()

    assert cpu_seconds(run, long_s=0.3) == pytest.approx(0.4)
    assert cpu_seconds(run) == pytest.approx(0.2)
