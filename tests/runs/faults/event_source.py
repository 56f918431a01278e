"""A browser's event source: it asks again from the last event it saw."""

import http.client
import json
import threading

RETRY_SECONDS = 0.2
TIMEOUT_SECONDS = 30
FAULTS = (OSError, http.client.HTTPException)


class EventSource:
    """A context manager: within it, a thread listens to one run.

    Attributes:
        seqs: Numbers of the events that came, in their order.
        connections: Answers that brought events.
        has_ended: The run has, and all its events came.
    """

    def __init__(self, port, run_id):
        self._port, self._path = port, f"/api/v1/runs/{run_id}/events"
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self.seqs = []
        self.connections = 0
        self.has_ended = False

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._closed.set()
        self._thread.join(TIMEOUT_SECONDS)

    def _listen(self):
        while not self._closed.is_set() and not self.has_ended:
            try:
                self._read()
            except FAULTS:
                self._closed.wait(RETRY_SECONDS)

    def _read(self):
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._port, timeout=TIMEOUT_SECONDS
        )
        try:
            seen = {"Last-Event-ID": str(self.seqs[-1])} if self.seqs else {}
            connection.request("GET", self._path, headers=seen)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise http.client.HTTPException(answer.status)
            self.connections += 1
            for line in answer:
                self._take(*line.decode().rstrip("\n").partition(": ")[::2])
        finally:
            connection.close()

    def _take(self, name, text):
        if name == "id":
            self.seqs.append(int(text))
        elif name == "data":
            state = json.loads(text).get("state")
            self.has_ended |= state in ("done", "failed", "cancelled", "interrupted")
