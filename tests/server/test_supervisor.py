"""The product as one command: it answers, survives a crash, leaves nothing behind."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.worker import fork_server
from dpsgd_explorer.runs.worker.prctl import NAME_BYTES
from dpsgd_explorer.settings import Settings
from tests.keys import private_pem
from tests.ports import free_port
from tests.runs.system_processes import name_of, wait_until
from tests.server.processes import (
    START_SECONDS,
    alive,
    children,
    command_of,
    descendants,
    has_begun,
    worker_of,
)


def assert_all_end_after(number, process):
    below = wait_until(lambda: (d := descendants(process.pid)) and len(d) >= 4 and d)
    process.send_signal(number)
    assert process.wait(START_SECONDS) == 0
    assert alive(below) == []


def readiness(address):
    """What /readyz says once all is well, None before."""
    ask = f"{address}/readyz"
    with (
        contextlib.suppress(urllib.error.HTTPError),
        urllib.request.urlopen(ask, timeout=START_SECONDS) as answer,
    ):
        return json.load(answer)
    return None


@pytest.mark.long("real runs")
def test_sigterm_ends_every_process(product):
    process, _ = product
    assert_all_end_after(signal.SIGTERM, process)


def test_a_killed_supervisor_leaves_no_orphan(product):
    process, _ = product
    below = wait_until(lambda: (d := descendants(process.pid)) and len(d) >= 4 and d)
    process.kill()
    process.wait()
    wait_until(lambda: not alive(below))


def test_a_crashed_worker_is_started_again_until_ctrl_c(product):
    process, address = product
    (before,) = worker_of(process)
    os.kill(before, signal.SIGKILL)
    with urllib.request.urlopen(f"{address}/healthz", timeout=START_SECONDS) as answer:
        assert answer.status == 200
    wait_until(lambda: worker_of(process) not in ([before], []))
    ready = wait_until(lambda: readiness(address))
    assert ready["checks"].keys() == {"database", "schema", "queue", "worker"}
    assert_all_end_after(signal.SIGINT, process)


def fork_servers(process):
    return [p for p in descendants(process.pid) if "fork_server" in command_of(p)]


def test_no_process_that_has_just_begun_outlives_the_supervisor(tmp_path):
    """The worker starts its fork server before it heeds SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsgd_explorer", "serve", "--only", "worker"],
        env=os.environ | {"DPSGD_INSTANCE_DIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    begun = wait_until(lambda: fork_servers(process))
    process.send_signal(signal.SIGINT)
    assert process.wait(START_SECONDS) == 0
    assert alive(begun) == []


@pytest.mark.long("real runs")
def test_pages_and_worker_may_run_apart(tmp_path):
    """Here on one machine: by the database each knows of the other."""
    port = free_port()
    own = {"DPSGD_INSTANCE_DIR": str(tmp_path), "PORT": str(port)}
    command = [sys.executable, "-m", "dpsgd_explorer", "serve", "--only"]
    started = [
        subprocess.Popen([*command, part], env=os.environ | own, stdout=subprocess.PIPE)
        for part in ("web", "worker")
    ]
    web, worker = started
    try:
        web.stdout.readline()
        ready = wait_until(lambda: readiness(f"http://127.0.0.1:{port}"))
        assert ready["checks"]["worker"].startswith("1 seen")
        assert worker_of(web) == []
        assert len(worker_of(worker)) == 1
    finally:
        for process in started:
            process.terminate()
            assert process.wait(START_SECONDS) == 0
            process.stdout.close()


def test_what_cannot_listen_ends_with_its_parent_too(product):
    """Stopped here; elsewhere a library that loads keeps every thread waiting."""
    process, _ = product
    (consumer,) = worker_of(process)
    (arbiter,) = children(process.pid) - {consumer}
    web = wait_until(lambda: children(arbiter))
    wait_until(lambda: all(has_begun(pid) for pid in web))
    deaf = web | wait_until(
        lambda: {p for p in children(consumer) if name_of(p) == fork_server.NAME}
    )
    for pid in deaf:
        os.kill(pid, signal.SIGSTOP)
    for pid in (consumer, arbiter):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(deaf))


@contextlib.contextmanager
def supervised(folder, service, **limits):
    """Supervise a service that beats; give the supervisor and the folder of signs."""
    settings = "".join(f"supervisor.{name} = {s}\n" for name, s in limits.items())
    beats = (
        "import sys, time; from pathlib import Path; "
        "from dpsgd_explorer.runs.worker.heartbeat import Heartbeat\n"
        "heartbeat = Heartbeat(Path(sys.argv[1]))\n"
    )
    code = (
        "import sys; from pathlib import Path\n"
        "from dpsgd_explorer.server import supervisor\n"
        f"{settings}"
        f"command = ['-c', {beats + service!r}, sys.argv[1]]\n"
        "worker = supervisor.Service('worker', command, signs=Path(sys.argv[1]))\n"
        "raise SystemExit(supervisor.Supervisor([worker]).run())"
    )
    with (folder / "log").open("wb") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-c", code, str(folder)], stdout=log
        )
    try:
        yield supervisor, folder / "workers"
    finally:
        supervisor.terminate()
        assert supervisor.wait(START_SECONDS) == 0


BEATING = "while True: heartbeat.beat(); time.sleep(0.05)\n"
KILLED = "the worker does not respond and is killed"


def test_a_service_that_hangs_is_replaced(tmp_path):
    with supervised(tmp_path, BEATING, HUNG_SECONDS=2.0) as (supervisor, signs):
        wait_until(lambda: list(signs.glob("*")))
        (before,) = children(supervisor.pid)
        os.kill(before, signal.SIGSTOP)
        wait_until(lambda: children(supervisor.pid) - {before})
        assert not (signs / str(before)).exists()
    assert KILLED in (tmp_path / "log").read_text()


def test_a_service_may_start_slowly(tmp_path):
    slow = f"time.sleep(3)\n{BEATING}"
    with supervised(tmp_path, slow, HUNG_SECONDS=1.0) as (supervisor, signs):
        (first,) = wait_until(lambda: children(supervisor.pid))
        wait_until(lambda: list(signs.glob("*")))
        assert children(supervisor.pid) == {first}
    assert KILLED not in (tmp_path / "log").read_text()


def test_a_service_that_never_starts_is_replaced(tmp_path):
    limits = {"HUNG_SECONDS": 0.5, "MAX_START_SECONDS": 1.0}
    with supervised(tmp_path, "time.sleep(1000)", **limits) as (supervisor, _):
        (first,) = wait_until(lambda: children(supervisor.pid))
        wait_until(lambda: children(supervisor.pid) - {first})
    assert KILLED in (tmp_path / "log").read_text()


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
        f"serve: port {port} on 127.0.0.1 is in use by another program. Stop that "
        f"program, or choose another port, such as PORT={port + 1}.\n"
    )


def test_a_database_of_a_later_program_is_refused_in_one_line(tmp_path):
    settings = Settings.from_environment({"DPSGD_INSTANCE_DIR": str(tmp_path)})
    with closing_store(settings) as store, store.database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '999'")
    for command in ("serve", "worker"):  # the worker is already loading torch
        # Not a pipe: its end would come only with the last process that has it.
        with (tmp_path / "log").open("wb") as log:
            result = subprocess.run(
                [sys.executable, "-m", "dpsgd_explorer", command],
                env=os.environ | {"DPSGD_INSTANCE_DIR": str(tmp_path)},
                stdout=log,
                stderr=log,
                timeout=START_SECONDS,
            )
        assert alive_with(str(tmp_path)) == []
        assert result.returncode == 2
        [line] = (tmp_path / "log").read_text().splitlines()
        assert line.startswith(f"{command}: the database ")
        assert "has schema 999" in line
        assert "a later version of the program wrote it" in line


def alive_with(word):
    """Return the processes that have a word in their environment."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # another user's, or it ended
            if word in file.read_text():
                found.append(file.parent.name)
    return found


@contextlib.contextmanager
def closing_store(settings):
    store = RunStore.from_settings(settings)
    try:
        yield store
    finally:
        store.database.close()


@pytest.mark.long("real runs")
def test_only_the_web_server_has_its_secrets(tmp_path):
    token = "k7Zp-2vQx9_LmN4tR8wA"
    file = tmp_path / "token"
    file.write_text(token)
    port = free_port()
    secrets = {
        "DPSGD_METRICS_TOKEN_FILE": str(file),
        "DPSGD_SECRET_KEY": token,
        "DPSGD_RECEIPT_KEY": private_pem(),
    }
    own = {"DPSGD_INSTANCE_DIR": str(tmp_path), "PORT": str(port)}
    command = [sys.executable, "-m", "dpsgd_explorer", "serve"]
    process = subprocess.Popen(command, env=os.environ | own | secrets)
    try:
        wait_until(lambda: readiness_or_none(f"http://127.0.0.1:{port}"))
        launch = {"dataset": "adult", "model": "logistic", "steps": 20_000}
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/v1/runs",
            json.dumps(launch).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=START_SECONDS) as answer:
            run_id = json.load(answer)["id"]
        (worker,) = worker_of(process)
        name = f"run {run_id}"[:NAME_BYTES]
        trainer = wait_until(
            lambda: [pid for pid in descendants(worker) if name_of(pid) == name]
        )
        for pid in {worker, *trainer, *descendants(worker)}:
            with contextlib.suppress(FileNotFoundError):  # it ended meanwhile
                environment = Path(f"/proc/{pid}/environ").read_text()
                assert token not in environment
                assert "METRICS_TOKEN_FILE" not in environment
                assert "PRIVATE KEY" not in environment
                assert "DPSGD_INSTANCE_DIR" in environment
    finally:
        process.terminate()
        assert process.wait(START_SECONDS) == 0


def readiness_or_none(address):
    with contextlib.suppress(urllib.error.URLError, ConnectionError):
        return readiness(address)
    return None


def test_every_process_may_open_as_many_files_as_the_system_allows(tmp_path):
    code = (
        "import resource\n"
        "from dpsgd_explorer.server.supervisor import raise_file_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))\n"
        "raise_file_limit(); print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert said.stdout == "(4096, 4096)\n"


def test_a_service_that_never_starts_ends_the_supervisor():
    code = (
        "from dpsgd_explorer.server.supervisor import Service, Supervisor\n"
        "bad = Service('web server', ['-c', 'raise SystemExit(3)'])\n"
        "good = Service('worker', ['-c', 'import time; time.sleep(60)'])\n"
        "raise SystemExit(Supervisor([bad, good]).run())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
    )
    assert result.returncode == 1
    assert result.stdout.count("starting it again") == 2
    assert "the web server does not start" in result.stdout
