"""The worker's end of a fork server, and the processes that it forks for the worker."""

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

# Every request is the same; what matters are the pipes that come with it.
REQUEST = b"fork"
PID_BYTES = 64
GRACE_SECONDS = 3.0
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.001, 0.05


def end(process: subprocess.Popen[bytes] | ForkedProcess) -> None:
    """Terminate a process; kill it after GRACE_SECONDS."""
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_hung_up(end_of_pipe: int) -> bool:
    """Whether nobody holds the other end of a pipe or socket any more."""
    poll = select.poll()
    poll.register(end_of_pipe, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def started_from_a_lasting_thread(
    command: list[str], **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process from a thread that lives as long as the process does.

    A process that asked to die with its parent is killed when the *thread* that
    started it ends; see ``prctl.die_with_parent``.
    """
    started: Future[subprocess.Popen[bytes]] = Future()

    def keep() -> None:
        try:
            process = subprocess.Popen(command, **options)
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        with suppress(ChildProcessError):  # somebody else has already waited for it
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    threading.Thread(target=keep, name="keeps a process", daemon=True).start()
    return started.result()


def can_fork() -> bool:
    """Whether this system gives us the processes that a server of ours forks."""
    return adopt_orphans()


class ForkServer:
    """A process that loads what runs need, once, and is forked for each of them.

    Args:
        arguments: Of its program.
        environment: Its variables.

    Attributes:
        loading: Whether it has loaded.
    """

    program: tuple[str, ...] = ("-m", "dpsgd_explorer.runs.worker.fork_server")

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._requests, theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        with theirs:
            self._popen = started_from_a_lasting_thread(
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
        """Whether it can be asked no more.

        Its end of the socket closes some time before the system reports its exit.
        """
        return is_hung_up(self._requests.fileno()) or self._popen.poll() is not None

    def fork(self) -> ForkedProcess:
        """Ask for a process; while the server loads, it does not exist yet."""
        (stdin, writer), (reader, number) = os.pipe(), os.pipe()
        # Where the server has died, both pipes end, and so has the process.
        with suppress(OSError):
            socket.send_fds(self._requests, [REQUEST], [stdin, number])
        os.close(stdin)
        os.close(number)
        return ForkedProcess(writer, reader)

    def close(self) -> None:
        """End it; the processes that it has forked are not touched."""
        self._requests.close()
        end(self._popen)
        self.loading.close()


class ForkedProcess:
    """A process of a fork server, with as much of ``Popen`` as is used of it.

    It is ours to wait for, like one that we have started: the server leaves it to us.

    Args:
        stdin: End of the pipe to its standard input.
        number: End of the pipe on which it tells its number once it exists.

    Attributes:
        stdin: Its standard input.
        stdout: None: it writes where the server does.
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
        """The system's number for it; None as long as it does not exist."""
        if self._pid is None and self._code is None:
            told = self._number.read(PID_BYTES)
            if told is not None:
                self._number.close()
            if told:
                self._pid = int(told)
            elif told is not None:  # the server has ended before it forked
                self._code = -signal.SIGKILL
        return self._pid

    def wait(self, timeout: float = float("inf")) -> int:
        """Return its exit code, or minus the signal that ended it.

        Raises:
            subprocess.TimeoutExpired: it still runs after ``timeout`` seconds.
        """
        end, pause = time.monotonic() + timeout, FIRST_WAIT_SECONDS
        while (code := self._poll()) is None:
            left = end - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(ForkServer.program, timeout)
            time.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_WAIT_SECONDS)
        return code

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._poll() is not None:
            return
        if self.pid is not None:
            os.kill(self.pid, number)
        else:
            self.stdin.close()  # the server forks for no pipe that has ended
            self._number.close()
            self._code = -number

    def _poll(self) -> int | None:
        if self._code is None and self.pid is not None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code
