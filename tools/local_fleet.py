"""Start the site of deploy/compose.yaml without containers, on loopback alone.

``python -m tools.local_fleet`` starts PostgreSQL, Redis, web servers, workers and nginx
from this machine's packages, in a folder that is gone at the end:

| | |
|---|---|
| ``--webs`` | web servers, 2 |
| ``--workers`` | workers of one run at a time, 2 |
| ``--port`` | of nginx; the web servers have the next ones |

It prints the site's address once it is ready, and ends all with SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.runs.servers import PostgreSQL, Redis

Process = subprocess.Popen[bytes]
ROOT = Path(__file__).parents[1]
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"
PROGRAM = [sys.executable, "-m", "dpsgd_explorer"]
START_SECONDS = 300.0
STOP_SECONDS = 30.0
SHARED = ROOT / "dpsgd_explorer" / "server" / "nginx"
# The file of deploy/nginx.conf without TLS.
FRAME = """daemon off; master_process off; pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{ access_log off;
client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
proxy_cache_path {folder}/cache keys_zone=dpsgd_static:1m;
include {shared}/http.conf;
upstream dpsgd_explorer {{ {servers} keepalive 32; keepalive_timeout 1s; }}
server {{ listen 127.0.0.1:{port};
proxy_set_header X-Forwarded-Proto $scheme;
location = /metrics {{ return 404; }}
include {shared}/server.conf; }} }}
"""


@dataclass(frozen=True)
class Fleet:
    """A site that runs.

    Attributes:
        address: Address of nginx.
        webs: Addresses of the web servers.
        web_processes: Their supervisors.
        environment: Variables of all its processes.
        metrics_token: Opens their metrics.
    """

    address: str
    webs: list[str]
    web_processes: list[Process]
    environment: dict[str, str]
    metrics_token: str


@contextlib.contextmanager
def local_fleet(
    *,
    webs: int = 2,
    workers: int = 2,
    port: int = 8160,
    changes: Mapping[str, str] | None = None,
) -> Iterator[Fleet]:
    """Run a site within the context; it is ready at the start.

    Args:
        webs: Number of web servers.
        workers: Number of workers, each of one run at a time.
        port: Port of nginx; the web servers have the next ports.
        changes: Variables of its processes, in place of the usual ones.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="dpsgd-fleet-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        database, queue = _started(PostgreSQL), _started(Redis)
        stack.callback(database.close)
        stack.callback(queue.close)
        token = secrets.token_urlsafe(32)
        environment = {
            **os.environ,
            "DPSGD_DATABASE_URL": database.url(),
            "DPSGD_QUEUE_URL": queue.url,
            "DPSGD_SECRET_KEY": secrets.token_urlsafe(32),
            "DPSGD_METRICS_TOKEN": token,
            "DPSGD_TRUSTED_PROXIES": "127.0.0.0/8",
            "DPSGD_WORKERS": "1",
            "DPSGD_OFFLINE": "1",
            "HOST": "127.0.0.1",
            **(changes or {}),
        }
        first = environment | {"DPSGD_INSTANCE_DIR": str(folder / "upgrade")}
        subprocess.run([*PROGRAM, "database", "upgrade"], env=first, check=True)
        for number in range(workers):
            own = {"DPSGD_INSTANCE_DIR": str(folder / f"worker{number}")}
            stack.enter_context(_process("worker", environment | own))
        ports = [port + 1 + number for number in range(webs)]
        processes = []
        for each in ports:
            own = {"DPSGD_INSTANCE_DIR": str(folder / f"web{each}"), "PORT": str(each)}
            processes.append(stack.enter_context(_process("web", environment | own)))
        addresses = [f"http://127.0.0.1:{each}" for each in (port, *ports)]
        for address in addresses[1:]:  # nginx leaves out a while who refuses it once
            _wait_until_ready(address)
        configuration = folder / "nginx.conf"
        configuration.write_text(_nginx(folder, port, ports), encoding="utf-8")
        nginx = [NGINX, "-e", "stderr", "-c", str(configuration)]
        stack.enter_context(_running(subprocess.Popen(nginx)))
        _wait_until_ready(addresses[0])
        yield Fleet(addresses[0], addresses[1:], processes, environment, token)


def _started(server: Callable[[], Any]) -> Any:
    """Start a server of the tests, on a port of its own."""
    return server().start()


def _process(
    part: str, environment: dict[str, str]
) -> contextlib.AbstractContextManager[Process]:
    return _running(
        subprocess.Popen([*PROGRAM, "serve", "--only", part], env=environment)
    )


@contextlib.contextmanager
def _running(process: Process) -> Iterator[Process]:
    """End a process at the end of the context."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _nginx(folder: Path, port: int, ports: list[int]) -> str:
    """Return nginx's configuration: it includes the files that deploy/ includes."""
    servers = " ".join(f"server 127.0.0.1:{each};" for each in ports)
    return FRAME.format(folder=folder, port=port, servers=servers, shared=SHARED)


def _wait_until_ready(address: str) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(f"{address}/readyz").close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"{address} was not ready within {START_SECONDS:.0f} seconds")


def main() -> None:
    """Start a fleet; end it with a signal."""
    parser = argparse.ArgumentParser(prog="python -m tools.local_fleet")
    parser.add_argument("--webs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--port", type=int, default=8160)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), local_fleet(**vars(options)) as fleet:
        print(f"The site is ready at {fleet.address}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
