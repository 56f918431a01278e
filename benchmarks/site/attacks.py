"""Clients that block a site without a proxy: slow, endless, deaf or idle ones."""

from __future__ import annotations

import contextlib
import re
import socket
import urllib.request
from collections.abc import Callable, Iterator

CLIENTS = 100
PATIENCE = 60.0  # timeout in seconds, of a connection and of a response
#: Bytes that a client reads per call.
RECEIVED = 4096
HOST = b"Host: localhost\r\n"
QUICK = b"GET /healthz HTTP/1.1\r\n" + HOST
UPLOAD = b"POST /data/ HTTP/1.1\r\n" + HOST + b"Content-Length: 2000000\r\n\r\n"
LARGE = b"POST /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: 90000000\r\n\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
PAGES = (b"GET /train/ HTTP/1.1\r\n" + HOST + b"\r\n") * 5
#: kind: bytes that a client sends first, bytes that it then sends repeatedly
KINDS = {
    "keeps its socket open": (QUICK + b"Connection: close\r\n\r\n", b""),
    "sends nothing": (b"", b""),
    "sends its head slowly": (b"GET / HTTP/1.1\r\nX-A: ", b"a"),
    "uploads slowly": (UPLOAD, b"a"),
    "sends too large a body": (LARGE, b"a" * 1000),
    "sends an endless body": (CHUNKED, b"5\r\naaaaa\r\n"),
    "reads nothing": (b"GET {plotly} HTTP/1.1\r\n" + HOST + b"\r\n", b""),
    "asks for pages and reads nothing": (PAGES, b""),
    "is idle": (QUICK + b"\r\n", b""),
}


@contextlib.contextmanager
def attack(port: int, kind: str) -> Iterator[Callable[[], None]]:
    """Attacks a site of this machine; the context yields a function that continues.

    Args:
        port: Port of the site.
        kind: One of KINDS.
    """
    first, then = KINDS[kind]
    if b"{plotly}" in first:
        first = first.replace(b"{plotly}", largest_file(port).encode())
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(port)) for _ in range(CLIENTS)]
        for client in clients:
            client.sendall(first)
            client.setblocking(False)

        def go_on() -> None:
            for client in clients:
                # The buffer may be full, or the server may have closed the connection.
                with contextlib.suppress(OSError):
                    client.send(then)

        yield go_on


def connected(port: int) -> socket.socket:
    """Return a connection with a small receive buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)
    client.settimeout(PATIENCE)
    client.connect(("127.0.0.1", port))
    return client


def largest_file(port: int) -> str:
    """Return the path of the largest static file."""
    address = f"http://127.0.0.1:{port}/train/"
    with urllib.request.urlopen(address, timeout=PATIENCE) as page:
        found = re.search(r"/static/plotly[^\"']*", page.read().decode())
    assert found is not None
    return found.group()
