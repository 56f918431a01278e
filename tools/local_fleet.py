"""Start the site of deploy/compose.yaml without containers, on the loopback interface.

``python -m tools.local_fleet`` starts PostgreSQL, Redis, web servers, workers and nginx
with the packages of this machine, in a temporary folder:

| | |
|---|---|
| ``--webs`` | number of web servers, default 2 |
| ``--workers`` | number of workers, each of one run at a time, default 2 |
| ``--port`` | port of nginx; the web servers use the next ports |

It prints the site's address once the site is ready; SIGTERM or Ctrl-C stops it.
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
# Like deploy/nginx.conf, but without TLS.
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
    """A running site.

    Attributes:
        address: Address of nginx.
        webs: Addresses of the web servers.
        web_processes: Supervisors of the web servers.
        environment: Environment variables of all processes.
        metrics_token: Token for the metrics.
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
    """Run a site within the context; it is ready when the context starts.

    Args:
        webs: Number of web servers.
        workers: Number of workers, each of one run at a time.
        port: Port of nginx; the web servers have the next ports.
        changes: Environment variables of the processes that replace the default ones.
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
            instance = {"DPSGD_INSTANCE_DIR": str(folder / f"worker{number}")}
            stack.enter_context(_process("worker", environment | instance))
        ports = [port + 1 + number for number in range(webs)]
        processes = []
        for web_port in ports:
            instance = {
                "DPSGD_INSTANCE_DIR": str(folder / f"web{web_port}"),
                "PORT": str(web_port),
            }
            processes.append(
                stack.enter_context(_process("web", environment | instance))
            )
        addresses = [f"http://127.0.0.1:{web_port}" for web_port in (port, *ports)]
        for address in addresses[
            1:
        ]:  # nginx avoids a server for a while after a failure
            _wait_until_ready(address)
        configuration = folder / "nginx.conf"
        configuration.write_text(_nginx(folder, port, ports), encoding="utf-8")
        nginx = [NGINX, "-e", "stderr", "-c", str(configuration)]
        stack.enter_context(_running(subprocess.Popen(nginx)))
        _wait_until_ready(addresses[0])
        yield Fleet(addresses[0], addresses[1:], processes, environment, token)


def _started(server: Callable[[], Any]) -> Any:
    """Start a server from the tests' helpers, on its own port."""
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
    """Return nginx's configuration, which includes the same files as deploy/ does."""
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
    """Start a fleet and stop it on a signal."""
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
