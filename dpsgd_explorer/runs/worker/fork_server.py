"""Forks a process for each run: ``python -m ....runs.worker.fork_server LEASE``.

To load torch and the first data set takes seconds of the processor, to fork a process
that has loaded them milliseconds, and the forks share its memory.  OpenMP hangs in the
child of a process in which its threads have computed, so this one loads with one thread
and computes nothing else.

A request comes on standard input, a socket, with two pipes: the standard input of the
new process, and where it tells its number.  The new process is not this one's child but
its grandchild, whose parent ends at once, so that the worker adopts it, waits for it,
and outlives this server with it.  Nothing that is random is made before the fork: each
process takes keys and seeds of its own.

Source: the fork server of Python's ``multiprocessing``, whose processes only the server
can wait for.
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
    """Load, then fork when asked; in a fork, train one run and return its exit code."""
    die_with_parent()
    if is_hung_up(STDIN):  # the worker died before the kernel was asked to kill us
        return 0
    # Here: these imports take a second, in which the worker may be killed.
    from dpsgd_explorer.runs.worker import child, limits

    settings, lease_s = Settings.from_environment(), float(arguments[0])
    set_name(NAME)
    child.prepare(settings)
    child.load(settings)
    limits.lower_priority()
    gc.freeze()  # what the garbage collector does not touch stays shared
    report_warm()
    requests = socket.socket(fileno=os.dup(STDIN))
    if not is_fork(requests):
        return 0
    die_with_parent()  # the worker, by now
    return child.train_next(child.watch_parent(), settings, lease_s)


def is_fork(requests: socket.socket) -> bool:
    """Return in each process that is forked, with True; False when the worker ends."""
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
    """Fork twice; True in the grandchild, once it has been adopted."""
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
