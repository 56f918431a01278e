"""Gunicorn's threads, each given a request that has arrived whole.

Gunicorn's own worker reads a request in the thread that answers it, so a hundred
connections that send a byte now and then hold a hundred threads.  Here the one loop
that watches idle connections watches new ones too, until head and body lie in the
socket's buffer; what does not arrive in time is closed.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from functools import partial

from gunicorn.workers.gthread import TConn, ThreadWorker

ARRIVAL_SECONDS = 10.0
# Bytes of head and body that are waited for; web.guard allows bodies of 64 KiB.
LARGEST_REQUEST = 128 * 1024
END_OF_HEAD = b"\r\n\r\n"
BODY_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,7})[ \t]*\r\n", re.I)


class IntakeWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Serves any number of slow connections without a thread for each."""

    def enqueue_req(self, conn: TConn) -> None:
        """Give a connection to a thread; a new one waits for its request first."""
        if conn.data_ready or conn.initialized:
            super().enqueue_req(conn)
            return
        conn.timeout = time.monotonic() + ARRIVAL_SECONDS
        self.pending_conns.append(conn)
        self.poller.register(
            conn.sock,
            selectors.EVENT_READ,
            partial(self.on_pending_socket_readable, conn),
        )

    def on_pending_socket_readable(self, conn: TConn, client: socket.socket) -> None:
        """Take a new connection whose request has arrived."""
        if has_arrived(client):
            super().on_pending_socket_readable(conn, client)

    def on_client_socket_readable(self, conn: TConn, client: socket.socket) -> None:
        """Take a keep-alive connection whose next request has arrived."""
        if has_arrived(client):
            super().on_client_socket_readable(conn, client)


def has_arrived(client: socket.socket) -> bool:
    """Whether reading a request from this socket will not have to wait.

    If not, the socket counts as readable once more bytes have come (SO_RCVLOWAT).
    """
    try:
        came = client.recv(LARGEST_REQUEST, socket.MSG_PEEK)
        wanted = bytes_wanted(came)
        if len(came) >= LARGEST_REQUEST and wanted > len(came):
            client.shutdown(socket.SHUT_RD)  # what is there is read, then it ends
            wanted = 0
        before = client.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        is_over = len(came) < before or not came  # readable, yet short: nothing follows
        is_whole = is_over or len(came) >= wanted
        client.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 if is_whole else wanted
        )
    except OSError:
        return True  # it is broken, which a thread finds out at once
    return is_whole


def bytes_wanted(came: bytes) -> int:
    """Return how long a request is, or a lower bound above what came of it."""
    start = len(came) - len(came.lstrip(b"\r\n"))
    end = came.find(END_OF_HEAD, start)
    if end < 0:
        return len(came) + 1
    head = end + len(END_OF_HEAD)
    length = BODY_LENGTH.search(came, start, head)
    body = int(length[1]) if length else 0
    return head + body if head + body <= LARGEST_REQUEST else head
