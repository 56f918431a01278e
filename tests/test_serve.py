"""The product as one command: it answers, survives a crash, leaves nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

START_SECONDS = 60


def descendants(pid):
    """All living processes below one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it ended meanwhile
        if state != "Z":
            parents[int(stat.parent.name)] = int(parent)
    found, layer = set(), {pid}
    while layer := {child for child, parent in parents.items() if parent in layer}:
        found |= layer
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def wait_until(condition, seconds=START_SECONDS):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)
    return value


def alive(pids):
    return [pid for pid in pids if command_of(pid)]


@pytest.fixture
def product(tmp_path):
    """Start the product on a free port; give its process and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsgd_explorer", "serve"],
        env=os.environ | {"DPSGD_INSTANCE_DIR": str(tmp_path), "PORT": str(port)},
        stdout=subprocess.PIPE,
        text=True,
    )
    address = re.search(r"http://\S+", process.stdout.readline()).group()
    assert address == f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{address}/healthz", timeout=START_SECONDS) as answer:
        assert answer.status == 200
    wait_until(lambda: worker_of(process))
    yield process, address
    process.terminate()
    process.wait(20)
    process.stdout.close()


def worker_of(process):
    return [pid for pid in descendants(process.pid) if " worker " in command_of(pid)]


def assert_all_end_after(number, process):
    below = wait_until(lambda: (d := descendants(process.pid)) and len(d) >= 4 and d)
    process.send_signal(number)
    assert process.wait(10) == 0
    assert alive(below) == []


def test_sigterm_ends_every_process(product):
    process, _ = product
    assert_all_end_after(signal.SIGTERM, process)


def test_a_killed_supervisor_leaves_no_orphan(product):
    process, _ = product
    below = wait_until(lambda: (d := descendants(process.pid)) and len(d) >= 4 and d)
    process.kill()
    process.wait()
    wait_until(lambda: not alive(below), seconds=5)


def test_a_crashed_worker_is_started_again_until_ctrl_c(product):
    process, address = product
    (before,) = worker_of(process)
    os.kill(before, signal.SIGKILL)
    with urllib.request.urlopen(f"{address}/healthz", timeout=5) as answer:
        assert answer.status == 200
    wait_until(lambda: worker_of(process) not in ([before], []))
    assert_all_end_after(signal.SIGINT, process)


def test_a_port_in_use_is_told_with_the_remedy(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = subprocess.run(
            [sys.executable, "-m", "dpsgd_explorer", "serve"],
            env=os.environ | {"DPSGD_INSTANCE_DIR": str(tmp_path), "PORT": str(port)},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
        )
    assert result.returncode == 2
    assert result.stderr == (
        f"serve: port {port} on 127.0.0.1 is in use by another program; end that one, "
        f"or choose another port, such as PORT={port + 1}.\n"
    )


def test_a_service_that_never_starts_ends_the_supervisor():
    code = (
        "from dpsgd_explorer.serve import Service, Supervisor\n"
        "bad = Service('web server', ['-c', 'raise SystemExit(3)'])\n"
        "good = Service('worker', ['-c', 'import time; time.sleep(60)'])\n"
        "raise SystemExit(Supervisor([bad, good]).run())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30
    )
    assert result.returncode == 1
    assert result.stdout.count("starting it again") == 2
    assert "the web server does not start" in result.stdout
