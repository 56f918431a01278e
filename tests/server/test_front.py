"""nginx in front of the web server, as DPSGD_FRONT starts it, without any rights."""

import contextlib
import dataclasses
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.site.attacks import KINDS, QUICK, attack, connected
from dpsgd_explorer.server.front import configuration, find_nginx
from dpsgd_explorer.settings import Settings
from tests.ports import free_port
from tests.runs.system_processes import children_of, name_of, wait_until
from tests.server.processes import START_SECONDS, command_of

SECONDS = 60
PROBES = 5
#: Within this time a site answers whatever its other clients do.
PATIENCE_SECONDS = 2.0
#: The first answer may wait until a hundred pages are made.
FIRST_SECONDS = 6.0
LAUNCH = json.dumps({"dataset": "adult", "model": "logistic", "steps": 1})
AS_JSON = {"Content-Type": "application/json"}
#: As root, a user without rights is made by a name space.
WITHOUT_RIGHTS = ["unshare", "--user", "--map-user=10001"] if os.getuid() == 0 else []


@contextlib.contextmanager
def site(folder, only="web", **environment):
    """Start the site with nginx; give its port and the process of its supervisor."""
    port = free_port()
    own = {"DPSGD_INSTANCE_DIR": str(folder), "PORT": str(port), "DPSGD_FRONT": "nginx"}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*WITHOUT_RIGHTS, sys.executable, "-m", "dpsgd_explorer", "serve"]
            + ([f"--only={only}"] if only else []),
            env=os.environ | own | environment,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: is_up(port), START_SECONDS)
        yield port, process
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(SECONDS)
        text = log.read_text()
    assert code == 0, text
    assert "[emerg]" not in text, text


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with site(tmp_path_factory.mktemp("front"), HOST="0.0.0.0") as (number, _):
        yield number


def is_up(port):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return ask(port, "/healthz").status == 200
    return False


@dataclasses.dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def ask(port, path, method="GET", body=None, timeout=SECONDS, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    with contextlib.closing(connection):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())


def plotly(port):
    """Return the address of the largest static file."""
    page = ask(port, "/train/").body.decode()
    return re.search(r"/static/plotly[^\"']*", page).group()


@pytest.mark.long("slow clients")
@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_hostile_clients_hold_up_nobody(port, kind):
    seconds = []
    with attack(port, kind) as go_on:
        for _ in range(PROBES):
            go_on()
            begun = time.monotonic()
            assert ask(port, "/healthz", timeout=10).status == 200
            seconds.append(time.monotonic() - begun)
            time.sleep(1)
    first, *later = seconds
    assert first < FIRST_SECONDS, seconds
    assert max(later) < PATIENCE_SECONDS, seconds


@pytest.mark.long("slow clients")
def test_each_of_a_thousand_requests_at_once_is_answered(port):
    """A Unix socket whose queue is full rejects, where one of TCP waits."""
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(contextlib.closing(connected(port)))
            for _ in range(1_100)
        ]
        for client in clients:
            client.sendall(QUICK + b"\r\n")
        heads = [client.recv(15) for client in clients]
    assert set(heads) == {b"HTTP/1.1 200 OK"}


def test_static_files_are_compressed_and_kept_for_ever(port):
    address = plotly(port)
    for accepted, encoding in {
        "gzip, br": "br",
        "gzip": "gzip",
        "br;q=0, gzip": "gzip",
        "br; q=0.0, gzip;q=0": None,
        "": None,
        "br;q=0.5": "br",
    }.items():
        for _ in range(2):  # the second comes from nginx's cache
            found = ask(port, address, Accept_Encoding=accepted)
            assert found.status == 200
            assert found.headers["Content-Encoding"] == encoding
            assert "immutable" in found.headers["Cache-Control"]
            assert "Content-Security-Policy" in found.headers
            assert found.headers["Vary"] == "Accept-Encoding"
    whole = ask(port, address).body
    assert len(whole) > 4e6
    part = ask(port, address, Range="bytes=0-0")
    assert (part.status, part.body) in ((206, whole[:1]), (200, whole))
    assert ask(port, f"{address}x").status == 404


def listen(port, address, **headers):
    """Open a stream; give its connection and an iterator over its lines."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", f"{address}/events", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    return connection, iter(answer.readline, b"")


def test_a_stream_passes_unbuffered_and_is_taken_up_again(port):
    launched = ask(port, "/api/v1/runs", "POST", LAUNCH, **AS_JSON)
    assert launched.status == 201
    address = json.loads(launched.body)["links"]["self"]
    cookie = launched.headers["Set-Cookie"].split(";")[0]
    connection, lines = listen(port, address)
    with contextlib.closing(connection):
        seen = next(line for line in lines if line.startswith(b"id: "))
        assert any(b'"queued"' in line for line in lines)
        # The run waits: the stream is open, and nothing follows until it is cancelled.
        cancelled = ask(port, f"{address}/cancel", "POST", Cookie=cookie)
        assert cancelled.status == 200, cancelled.body
        assert any(b'"cancelled"' in line for line in lines)
    last = seen.split()[1].decode()
    connection, lines = listen(port, address, **{"Last-Event-ID": last})
    with contextlib.closing(connection):
        rest = list(lines)
    assert b'"queued"' not in b"".join(rest)
    assert any(b'"cancelled"' in line for line in rest)


def test_clients_cannot_say_who_they_are(port):
    headers = AS_JSON | {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
    answer = ask(port, "/api/v1/runs", "POST", LAUNCH, **headers)
    assert answer.status == 201
    assert "secure" not in answer.headers["Set-Cookie"].lower()
    assert ask(port, "/metrics").status == 404
    assert ask(port, "/healthz", Host="evil.example").status == 400


def test_a_trusted_proxy_speaks_for_clients_and_users(tmp_path):
    environment = {
        "DPSGD_HOSTS": "dp.example.org",
        "DPSGD_TRUSTED_PROXIES": "127.0.0.0/8",
        "DPSGD_USER_HEADER": "X-Remote-User",
    }
    with site(tmp_path, **environment) as (port, _):
        said = AS_JSON | {"X-Forwarded-Proto": "https", "Host": "dp.example.org"}
        answer = ask(port, "/api/v1/runs", "POST", LAUNCH, **said)
        assert answer.status == 201
        assert "secure" in answer.headers["Set-Cookie"].lower()
        # The public profile: its quotas count the network that the proxy names.
        ann = said | {"X-Remote-User": "ann"}
        assert ask(port, "/api/v1/runs", "POST", LAUNCH, **ann).status == 201
        listed = json.loads(ask(port, "/api/v1/runs", **ann).body)["runs"]
        assert len(listed) == 1


def test_nginx_is_started_again_and_ends_with_the_rest(tmp_path):
    with site(tmp_path) as (port, process):
        below = children_of(process.pid)
        [nginx] = [pid for pid in below if name_of(pid) == "nginx"]
        os.kill(nginx, signal.SIGKILL)
        wait_until(lambda: is_up(port))
        commands = " ".join(map(command_of, children_of(process.pid)))
        folder = Path(re.search(r"(\S+)/nginx\.conf", commands).group(1))
        assert folder.is_dir()
        assert folder.stat().st_mode & 0o077 == 0
        below = children_of(process.pid)
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(name_of, below)))
        shutil.rmtree(folder)
        process.returncode = 0


def test_an_answer_in_progress_arrives_before_the_site_ends(tmp_path):
    with site(tmp_path) as (port, process):
        launched = ask(port, "/api/v1/runs", "POST", LAUNCH, **AS_JSON)
        address = json.loads(launched.body)["links"]["self"]
        connection, lines = listen(port, address)
        with contextlib.closing(connection):
            assert any(b'"queued"' in line for line in lines)
            process.send_signal(signal.SIGTERM)
            list(lines)  # raises IncompleteRead if nginx ends first


def test_a_missing_nginx_is_named(tmp_path):
    environment = os.environ | {"PATH": str(tmp_path), "DPSGD_FRONT": "nginx"}
    code = (
        "import sys; from dpsgd_explorer.server import front; "
        "front.SYSTEM_FOLDERS = ''; from dpsgd_explorer.cli.main import main; "
        "sys.exit(main(['serve', '--only', 'web']))"
    )
    own = {"DPSGD_INSTANCE_DIR": str(tmp_path), "PORT": str(free_port())}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | own,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        "serve: DPSGD_FRONT must be unset or none if nginx is not"
    )


def test_nginx_does_not_get_the_secrets(tmp_path):
    token = "k7Zp-2vQx9_LmN4tR8wA"
    with site(tmp_path, DPSGD_METRICS_TOKEN=token, DPSGD_SECRET_KEY=token) as (
        _,
        process,
    ):
        [nginx] = [p for p in children_of(process.pid) if name_of(p) == "nginx"]
        assert token not in Path(f"/proc/{nginx}/environ").read_text()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"DPSGD_BEHIND_PROXY": "1"},
        {"DPSGD_TRUSTED_PROXIES": "10.0.0.7,192.0.2.0/24,2001:db8::/32"},
        {"DPSGD_TRUSTED_PROXIES": "::1", "DPSGD_USER_HEADER": "X-Remote-User"},
    ],
    ids=str,
)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_nginx_takes_the_configuration_without_a_warning(tmp_path, given, host):
    folder = tmp_path / "a b; {c}"  # a socket in it has 107 characters at most
    folder.mkdir()
    settings = Settings.from_environment({"DPSGD_INSTANCE_DIR": str(tmp_path)} | given)
    file = folder / "nginx.conf"
    file.write_text(configuration(settings, str(folder), host, "8000"))
    done = subprocess.run(
        [*WITHOUT_RIGHTS, find_nginx(), "-t", "-q", "-e", "stderr", "-c", str(file)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
