"""A change of a file wakes every process that listens, whichever has died meanwhile."""

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from dpsgd_explorer.runs.files.named_pipes import Listener, wake
from tests.runs.system_processes import PATIENCE_SECONDS

LISTEN = """
import sys, time
from pathlib import Path
from dpsgd_explorer.runs.files.named_pipes import Listener
listener = Listener(Path(sys.argv[1]))
print("listening", flush=True)
listener.wait(300)
print("woken", flush=True)
time.sleep(300)
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "runs.sqlite3"


@pytest.fixture
def listener(file):
    opened = Listener(file)
    yield opened
    opened.close()


def waiting(listener):
    thread = threading.Thread(target=listener.wait, args=(PATIENCE_SECONDS,))
    thread.start()
    return thread


def pipes_of(file):
    return list(file.with_name("runs.sqlite3-listeners").iterdir())


def test_a_file_without_listeners_may_change(file):
    wake(file)


def test_every_listener_is_woken_and_hears_what_came_before_its_wait(file, listener):
    other = Listener(file)
    wake(file)
    for thread in [waiting(listener), waiting(other)]:
        thread.join(PATIENCE_SECONDS / 2)
        assert not thread.is_alive()
    other.close()
    assert len(pipes_of(file)) == 1


def test_more_changes_than_a_pipe_holds_still_wake(file, listener):
    with pipes_of(file)[0].open("wb", buffering=0) as pipe:
        size = fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
    for _ in range(size + 1):
        wake(file)
    waiting(listener).join(PATIENCE_SECONDS / 2)
    thread = waiting(listener)
    wake(file)
    thread.join(PATIENCE_SECONDS / 2)
    assert not thread.is_alive()


def test_another_process_is_woken_and_its_pipe_removed_after_its_death(file):
    process = subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(file)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "listening\n"
    wake(file)
    assert process.stdout.readline() == "woken\n"
    assert len(pipes_of(file)) == 1
    process.kill()
    process.wait()
    wake(file)
    assert pipes_of(file) == []
    process.stdout.close()


def test_where_no_pipe_can_be_made_a_listener_looks_now_and_then(file, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "mkfifo", refuse)
    listener = Listener(file)
    listener.wait(PATIENCE_SECONDS)
    listener.close()
