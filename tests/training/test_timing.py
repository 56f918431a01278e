"""Times of steps, also by a clock that ticks seldom."""

import time

import pytest

from dpsgd_explorer.training.timing import Step, time_in_turns

TICK = 0.01


def test_steps_shorter_than_a_tick_of_the_clock_are_timed(monkeypatch):
    now = [0.0]

    def work(seconds):
        def run():
            now[0] += seconds

        return Step(run)

    monkeypatch.setattr(time, "process_time", lambda: now[0] // TICK * TICK)
    timings = time_in_turns({"one": work(2e-4), "three": work(6e-4)}, 0.5)
    assert timings["one"].milliseconds == pytest.approx(0.2, rel=0.25)
    assert timings["three"].ratio == pytest.approx(3, rel=0.25)
