"""Forks a training process per run: ``python -m ....runs.worker.fork_server LEASE``.

Loading torch and the first data set takes seconds of processor time.  Forking a process
that has loaded them takes milliseconds, and the forks share its memory.  OpenMP hangs
in a forked process if its threads have computed before the fork, so the server loads
with one thread and computes nothing else.

Standard input is a socket.  Each request on it carries two pipes: the standard input of
the new process, and a pipe to which the new process writes its process number.  The
server forks twice and the intermediate process ends, so that the worker adopts the new
process, can wait for it, and keeps it if the server ends.  No random numbers are drawn
before the fork: each process draws separate keys and seeds.

Source: the fork server of Python's ``multiprocessing``, where only the server can wait
for the processes.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import time

from dpsgd_explorer.runs.worker.ending import leave
from dpsgd_explorer.runs.worker.forked_process import REQUEST, is_hung_up
from dpsgd_explorer.runs.worker.loading import report_warm
from dpsgd_explorer.runs.worker.prctl import die_with_parent, set_name
from dpsgd_explorer.settings import Settings

NAME = "fork server"
STDIN = 0
PIPES = 2
ADOPTION_SECONDS = 0.001


def main(arguments: list[str]) -> int:
    """Loads, then forks on request; a fork trains one run and returns its exit code."""
    die_with_parent()
    if is_hung_up(STDIN):  # the worker died before die_with_parent took effect
        return 0
    # Imported here: this takes a second, in which the worker may be killed.
    from dpsgd_explorer.runs.worker import child, limits

    settings, lease_s = Settings.from_environment(), float(arguments[0])
    set_name(NAME)
    child.prepare(settings)
    child.load(settings)
    limits.lower_priority()
    gc.freeze()  # memory that the garbage collector does not touch remains shared
    report_warm()
    requests = socket.socket(fileno=os.dup(STDIN))
    if not is_fork(requests):
        return 0
    die_with_parent()  # the parent is now the worker
    return child.train_next(child.watch_parent(), settings, lease_s)


def is_fork(requests: socket.socket) -> bool:
    """Serves requests; returns True in each forked process.

    In the server itself it returns False when the worker ends.
    """
    while True:
        message, pipes, _, _ = socket.recv_fds(requests, len(REQUEST), PIPES)
        if not message:
            return False
        stdin, number = pipes
        if not is_hung_up(stdin) and _forked():
            requests.close()
            os.dup2(stdin, STDIN)
            os.write(number, str(os.getpid()).encode())
            os.close(stdin)
            os.close(number)
            return True
        os.close(stdin)
        os.close(number)


def _forked() -> bool:
    """Forks twice; returns True in the grandchild once the worker has adopted it."""
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return False
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == middle:
        time.sleep(ADOPTION_SECONDS)
    os.setpgid(0, 0)
    return True


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
