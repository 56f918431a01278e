"""A worker that gives signs is seen at every moment between two of them."""

import os
from pathlib import Path

from dpsgd_explorer.runs.worker.heartbeat import Heartbeat, file_of, seconds_since


def test_a_look_in_the_middle_of_a_beat_sees_the_one_before(tmp_path, monkeypatch):
    heartbeat, seen, utime = Heartbeat(tmp_path), [], os.utime
    file = file_of(tmp_path, os.getpid())

    def look_first(*args, **named):
        seen.append(seconds_since(file))
        utime(*args, **named)

    heartbeat.beat()
    monkeypatch.setattr(os, "utime", look_first)
    for _ in range(3):
        heartbeat.beat()
    assert len(seen) == 3
    assert None not in [*seen, seconds_since(file)]


def test_a_beat_in_the_middle_of_a_look_is_seen(tmp_path, monkeypatch):
    heartbeat, stat = Heartbeat(tmp_path), Path.stat
    file = file_of(tmp_path, os.getpid())
    heartbeat.beat()

    def beat_first(*args, **named):
        with monkeypatch.context() as within:
            within.setattr(Path, "stat", stat)
            heartbeat.beat()
        return stat(*args, **named)

    monkeypatch.setattr(Path, "stat", beat_first)
    assert seconds_since(file) is not None


def test_an_ended_worker_is_not_seen(tmp_path):
    heartbeat = Heartbeat(tmp_path)
    heartbeat.beat()
    heartbeat.end()
    assert seconds_since(file_of(tmp_path, os.getpid())) is None
