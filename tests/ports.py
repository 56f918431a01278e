"""Ports for servers of the tests, which nobody else is given meanwhile."""

import itertools
import os
import socket

# Below those that systems hand out to connections, any of which may be taken between
# the search for a free port and the start of the server.
FIRST, LAST = 10_240, 32_000
# Processes of tests begin their search at different places.
_numbers = itertools.count(os.getpid() * 97)


def free_port():
    """Return the number of a port at which nobody listens."""
    for number in itertools.islice(_numbers, LAST - FIRST):
        port = FIRST + number % (LAST - FIRST)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError(f"no port from {FIRST} to {LAST} is free")
