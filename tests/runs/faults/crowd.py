"""Many listeners of one run, in one thread: they cost the machine next to nothing."""

import re
import selectors
import socket
import threading

NUMBER = re.compile(rb"^id: (\d+)$", re.MULTILINE)
POLL_SECONDS = 0.5
JOIN_SECONDS = 60


class Crowd:
    """A context manager: within it, so many connections read the stream of one run.

    Attributes:
        heard: What came on each connection.
        open: Number of connections that the server has not ended.
    """

    def __init__(self, number, port, run_id):
        self._address = ("127.0.0.1", port)
        path = f"/api/v1/runs/{run_id}/events"
        # An answer of HTTP/1.0 is in no chunks, and ends with its connection.
        self._request = f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self.heard = [bytearray() for _ in range(number)]
        self.open = number

    @property
    def seqs(self):
        """Return the numbers of the events that came, for each listener."""
        return [[int(n) for n in NUMBER.findall(bytes(text))] for text in self.heard]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._closed.set()
        self._thread.join(JOIN_SECONDS)

    def _listen(self):
        with selectors.DefaultSelector() as selector:
            for text in self.heard:
                connection = socket.create_connection(self._address)
                connection.sendall(self._request)
                selector.register(connection, selectors.EVENT_READ, text)
            while self.open and not self._closed.is_set():
                for key, _ in selector.select(POLL_SECONDS):
                    self._take(selector, key)
            for key in list(selector.get_map().values()):
                key.fileobj.close()

    def _take(self, selector, key):
        if piece := key.fileobj.recv(65_536):
            key.data.extend(piece)
            return
        selector.unregister(key.fileobj)
        key.fileobj.close()
        self.open -= 1
