"""The web server from outside: alone, and behind the nginx of deploy/."""

import contextlib
import datetime
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dpsgd_explorer.server.supervisor import listening_socket
from dpsgd_explorer.web.http.headers import SECURITY_HEADERS
from dpsgd_explorer.web.http.stream_limit import STREAMS_A_VISITOR
from tests.ports import free_port
from tests.runs.system_processes import children_of, wait_until

ROOT = Path(__file__).parents[2]
SITE = "dp.example.org"
SECONDS = 60  # more than any answer takes
LAUNCH = json.dumps({"dataset": "adult", "model": "logistic", "steps": 1})
# Where a system keeps its servers is not on everybody's path.
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"
AS_JSON = {"Content-Type": "application/json"}


@contextlib.contextmanager
def web_server(folder, program=("-m", "dpsgd_explorer.server.gunicorn"), **environment):
    """Start the web process alone; give its port."""
    with web_process(folder, program, **environment) as (port, _):
        yield port


@contextlib.contextmanager
def web_process(folder, program, **environment):
    """Start the web process alone; give its port and the process."""
    with listening_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, *program, str(listener.fileno())],
            env=os.environ | {"DPSGD_INSTANCE_DIR": str(folder)} | environment,
            stdin=subprocess.PIPE,
            pass_fds=(listener.fileno(),),
        )
        try:
            ask(port, "/healthz")
            yield port, process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)
            process.stdin.close()


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """The port of a web server as `make run` starts it."""
    with web_server(tmp_path_factory.mktemp("local")) as number:
        yield number


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """Ports of nginx for http and https, with a public web server behind it."""
    folder = tmp_path_factory.mktemp("public")
    environment = {
        "DPSGD_PROFILE": "public",
        "DPSGD_BEHIND_PROXY": "1",
        "DPSGD_HOSTS": SITE,
    }
    with web_server(folder, **environment) as upstream:
        plain, secure = free_port(), free_port()
        configuration = nginx_files(folder, upstream, plain, secure)
        nginx = [NGINX, "-e", "stderr", "-c", str(configuration)]
        subprocess.run([*nginx, "-t"], check=True)
        process = subprocess.Popen(nginx)
        wait_for(plain)
        yield plain, secure
        process.terminate()
        process.wait(SECONDS)


def wait_for(port):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port)).close()
    raise AssertionError(f"nobody listens at {port}")


def nginx_files(folder, upstream, plain, secure):
    """Write certificates and the site file on other ports; return nginx.conf."""
    write_certificate(folder)
    site = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    for before, after in (
        ("/opt/dpsgd-explorer", str(ROOT)),
        ("/var/cache/dpsgd-nginx", f"{folder}/cache"),
        ("127.0.0.1:8000", f"127.0.0.1:{upstream}"),
        ("    listen [::]:80;\n", ""),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443", f"listen 127.0.0.1:{secure}"),
        (f"/etc/ssl/{SITE}", str(folder)),
    ):
        assert before in site
        site = site.replace(before, after)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid;\n"
        "events { worker_connections 2048; }\n"
        f"http {{ access_log off;\n{paths}\n{site}}}\n",
        encoding="utf-8",
    )
    return configuration


def write_certificate(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SITE)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SITE)]), False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "fullchain.pem").write_bytes(certificate.public_bytes(pem))
    secret = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(secret)


def ask(port, path, method="GET", body=None, **headers):
    """Return status, headers and text of one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.closing(connection):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


def connect(port, trusted=None):
    """Open a connection; with a certificate's file, an encrypted one to the site."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    if trusted is None:
        return plain
    context = ssl.create_default_context(cafile=trusted)
    return context.wrap_socket(plain, server_hostname=SITE)


@pytest.mark.parametrize("size", [1, 100, 30_000])
def test_a_request_in_pieces_is_answered_whole(port, size):
    body = LAUNCH[:-1] + " " * (60_000 - len(LAUNCH)) + "}"
    head = (
        "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    first, rest = head.encode(), body.encode()
    with connect(port) as connection:
        for i in range(0, len(first), size):
            connection.sendall(first[i : i + size])
        for i in range(0, len(rest), 1000 * size):
            connection.sendall(rest[i : i + 1000 * size])
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 201


def test_many_requests_share_a_connection(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.closing(connection):
        for _ in range(3):
            for method, path, body in (
                ("POST", "/api/v1/runs", LAUNCH),
                ("GET", "/healthz", None),
            ):
                connection.request(method, path, body, AS_JSON)
                answer = connection.getresponse()
                answer.read()
                assert answer.status in (200, 201)


def test_requests_sent_in_one_piece_are_each_answered(port):
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    with connect(port) as connection:
        connection.sendall(request + b"\r\n" + request + b"Connection: close\r\n\r\n")
        text = b"".join(iter(lambda: connection.recv(65536), b""))
    assert text.count(b"HTTP/1.1 200 OK") == 2


def test_a_body_of_undeclared_length_is_refused(port):
    pieces = iter([LAUNCH.encode()])
    assert ask(port, "/api/v1/runs", "POST", pieces, **AS_JSON)[0] == 411


NOT_HTTP = {
    "no request": (b"HELLO\r\n\r\n", 400),
    "a long address": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
    "a long header": (b"GET / HTTP/1.1\r\nA: " + b"a" * 9000 + b"\r\n\r\n", 431),
    "two lengths": (
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\naa",
        400,
    ),
}


@pytest.mark.parametrize(("sent", "status"), NOT_HTTP.values(), ids=NOT_HTTP)
def test_what_is_no_request_gets_the_error_that_all_get(port, sent, status):
    with connect(port) as connection:
        connection.sendall(sent)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == status
        assert set(json.loads(answer.read())["error"]) == {"code", "message"}
        assert set(SECURITY_HEADERS) <= set(answer.headers)


def test_no_answer_says_what_the_server_is_made_of(port):
    headers = ask(port, "/healthz")[1]
    assert headers.get_all("Server") == ["dpsgd-explorer"]


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "PATH_INFO", "X-Forwarded-Proto"])
def test_headers_of_a_proxy_count_only_behind_one(port, name):
    headers = {name: "https" if "Proto" in name else "/elsewhere"} | AS_JSON
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("POST", "/api/v1/runs", LAUNCH, headers)
        answer = connection.getresponse()
        assert answer.status == 201
        assert "secure" not in answer.headers["Set-Cookie"].lower()


def test_the_proxy_serves_the_site_encrypted(proxied, tmp_path_factory):
    _, secure = proxied
    trusted = tmp_path_factory.getbasetemp() / "public0" / "fullchain.pem"

    def asked(method, path, body=None, **headers):
        connection = http.client.HTTPConnection(SITE, timeout=SECONDS)
        with connect(secure, trusted) as connection.sock:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    own_page = AS_JSON | {"Origin": f"https://{SITE}"}
    status, headers, text = asked("POST", "/api/v1/runs", LAUNCH, **own_page)
    assert status == 201, text
    assert {"Secure", "HttpOnly"} <= set(headers["Set-Cookie"].split("; "))
    cookie = headers["Set-Cookie"].split(";")[0]
    links = json.loads(text)["links"]
    assert "max-age" in headers["Strict-Transport-Security"]
    assert asked("GET", "/train")[1]["Location"] == "/train/"
    assert asked("GET", "/metrics")[0] == 404
    assert asked("POST", "/api/v1/runs", " " * 70_000, **AS_JSON)[0] == 413
    # The site takes no tables: the answer is its own, not nginx's about the size.
    assert asked("POST", "/data/", " " * 2**20, **own_page)[0] == 404
    report = asked("GET", f"{links['self']}/export.html")[2]
    assert f"https://{SITE}{links['page']}" in report
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS_A_VISITOR):
            stream = stack.enter_context(connect(secure, trusted))
            request = f"GET {links['self']}/events HTTP/1.1\r\nHost: {SITE}\r\n"
            stream.sendall(f"{request}Cookie: {cookie}\r\n\r\n".encode())
            text = b""
            while b'"queued"' not in text:  # passed on although the run goes on
                text += stream.recv(4096)
        more = asked("GET", f"{links['self']}/events", Cookie=cookie)
        assert more[0] == 503
        assert "4 event streams of this visitor" in more[2]
        polled = asked("GET", f"{links['self']}/events.json", Cookie=cookie)
        assert polled[0] == 200
    assert asked("GET", "/healthz", Host="evil.example")[0] == 400


@pytest.mark.parametrize("profile", ["local", "public"])
def test_a_bare_server_in_a_network_is_rejected_with_the_remedy(tmp_path, profile):
    done = subprocess.run(
        [sys.executable, "-m", "dpsgd_explorer", "serve"],
        env=os.environ
        | {"DPSGD_INSTANCE_DIR": str(tmp_path), "PORT": str(free_port())}
        | {"DPSGD_PROFILE": profile, "HOST": "0.0.0.0"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 2
    assert re.match(r"serve: HOST must be a loopback .*DPSGD_FRONT=nginx", done.stderr)


def test_clients_that_keep_their_socket_open_delay_nobody(port):
    """gunicorn waits up to 2 s for each such client, on the loop that accepts."""
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(10)]
        begun = time.monotonic()
        for client in clients:
            client.sendall(request)
        for client in clients:
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
        assert ask(port, "/healthz")[0] == 200
        assert time.monotonic() - begun < 10  # of the 20 s of ten clients


def test_without_free_descriptors_the_server_waits_and_lives(tmp_path):
    """A limit below the number of connections used to end the process."""
    code = (
        "import resource, sys; from dpsgd_explorer.server import gunicorn\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\n"
        "gunicorn.main(sys.argv[1:])"
    )
    with web_process(tmp_path, ["-c", code]) as (port, process):
        [worker] = children_of(process.pid)
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(connect(port)).sendall(b"GET /healthz HTTP/1.1\r\n")
            time.sleep(2)  # in which all of them are accepted, or none can be
        wait_until(lambda: asked_in_time(port))
        assert children_of(process.pid) == [worker]


def asked_in_time(port):
    """Whether the web server answers by now."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return ask(port, "/healthz")[0] == 200


def test_arrays_are_multiplied_in_the_thread_that_asks():
    code = """
import os, sys
from dpsgd_explorer.server import gunicorn
assert "numpy" not in sys.modules
gunicorn.use_one_thread_per_product()
import numpy, scipy.linalg
square = numpy.ones((500, 500))
square @ square
print(len(os.listdir("/proc/self/task")))
"""
    without = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=without,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1"
