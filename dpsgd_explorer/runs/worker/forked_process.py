"""Client of a fork server in the worker, and handles of the forked processes."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from dpsgd_explorer.runs.worker.loading import Loading
from dpsgd_explorer.runs.worker.prctl import adopt_orphans

# All requests are equal; the pipes sent with a request make the difference.
REQUEST = b"fork"
PID_BYTES = 64
GRACE_SECONDS = 3.0
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.001, 0.05


def end(process: subprocess.Popen[bytes] | ForkedProcess) -> None:
    """Terminates a process, and kills it after GRACE_SECONDS."""
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_hung_up(end_of_pipe: int) -> bool:
    """Returns True if no process holds the other end of a pipe or socket."""
    poll = select.poll()
    poll.register(end_of_pipe, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def start_in_lasting_thread(
    command: list[str], **options: Any
) -> subprocess.Popen[bytes]:
    """Starts a process from a thread that lives until the process ends.

    After ``prctl.die_with_parent``, the kernel kills a process when the *thread* that
    started it ends.
    """
    started: Future[subprocess.Popen[bytes]] = Future()

    def keep() -> None:
        try:
            process = subprocess.Popen(command, **options)
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        with suppress(ChildProcessError):  # another thread has already waited for it
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    threading.Thread(target=keep, name="keeps a process", daemon=True).start()
    return started.result()


def can_fork() -> bool:
    """Returns True if the worker can adopt processes that a server forks."""
    return adopt_orphans()


class ForkServer:
    """A process that loads torch and data once and is forked for each run.

    Args:
        arguments: Arguments of the program.
        environment: Environment variables.

    Attributes:
        loading: State of the loading.
    """

    program: tuple[str, ...] = ("-m", "dpsgd_explorer.runs.worker.fork_server")

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._requests, theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        with theirs:
            self._popen = start_in_lasting_thread(
                [sys.executable, *self.program, *arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                bufsize=0,
                env=environment,
                process_group=0,
            )
        assert self._popen.stdout is not None
        self.loading = Loading(self._popen.stdout)

    @property
    def has_ended(self) -> bool:
        """True if the server accepts no more requests.

        The server's end of the socket closes some time before the system reports the
        exit of the process.
        """
        return is_hung_up(self._requests.fileno()) or self._popen.poll() is not None

    def fork(self) -> ForkedProcess:
        """Requests a process, which is created once the server has loaded."""
        (stdin, writer), (reader, number) = os.pipe(), os.pipe()
        # If the server is dead, both pipes are closed, and the process counts as ended.
        with suppress(OSError):
            socket.send_fds(self._requests, [REQUEST], [stdin, number])
        os.close(stdin)
        os.close(number)
        return ForkedProcess(writer, reader)

    def close(self) -> None:
        """Ends the server, but not the processes that it has forked."""
        self._requests.close()
        end(self._popen)
        self.loading.close()


class ForkedProcess:
    """A process of a fork server, with the part of ``Popen`` that the worker uses.

    The worker has adopted the process and can wait for it like for its own child.

    Args:
        stdin: Descriptor of the pipe to the standard input of the process.
        number: Descriptor of the pipe to which the process writes its number.

    Attributes:
        stdin: Standard input of the process.
        stdout: None, because the process writes to the server's standard output.
    """

    stdout = None

    def __init__(self, stdin: int, number: int) -> None:
        self.stdin = open(stdin, "wb", buffering=0)  # noqa: SIM115
        self._number = open(number, "rb", buffering=0)  # noqa: SIM115
        os.set_blocking(number, False)
        self._pid: int | None = None
        self._code: int | None = None

    @property
    def pid(self) -> int | None:
        """Process number; None before the process exists."""
        if self._pid is None and self._code is None:
            digits = self._number.read(PID_BYTES)
            if digits is not None:
                self._number.close()
            if digits:
                self._pid = int(digits)
            elif digits is not None:  # the server ended before it forked
                self._code = -signal.SIGKILL
        return self._pid

    def wait(self, timeout: float = float("inf")) -> int:
        """Returns the exit code, or minus the number of the signal.

        Raises:
            subprocess.TimeoutExpired: The process still runs after ``timeout`` seconds.
        """
        end, pause = time.monotonic() + timeout, FIRST_WAIT_SECONDS
        while (code := self._poll()) is None:
            left = end - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(ForkServer.program, timeout)
            time.sleep(min(pause, left))
            pause = min(2 * pause, MAX_WAIT_SECONDS)
        return code

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._poll() is not None:
            return
        if self.pid is not None:
            os.kill(self.pid, number)
        else:
            self.stdin.close()  # the server does not fork for a closed pipe
            self._number.close()
            self._code = -number

    def _poll(self) -> int | None:
        if self._code is None and self.pid is not None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code
