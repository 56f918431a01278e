"""A cache of answers that depend on their question alone, computed one at a time.

Parallel computations in threads of one process only slow each other down.  One after
the other, half of them finish by the time at which all would finish in parallel.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock

import brotli
from flask import Response, current_app, g, request

from dpsgd_explorer.web.http.compression import brotli_of
from dpsgd_explorer.web.http.errors import HttpError

#: Largest number of questions in the queue "slow", whose answers take up to a minute.
#: The other threads of the server stay free.
MAX_SLOW = 24
RETRY_SECONDS = 10
View = Callable[..., Response]
ANSWERS = 64  # answers per route, up to about 100 kB each
PAGES = 256  # pages of all routes, compressed, up to about 20 kB each


class Queue:
    """Lets one thread at a time compute; turns others down if too many wait.

    Attributes:
        longest: Largest number of threads in the queue, None for any number.
        length: Number of threads in the queue; one of them computes.
    """

    def __init__(self, longest: int | None = None) -> None:
        """Create an empty queue."""
        self.longest = longest
        self._lock, self._turn = Lock(), Lock()
        self.length = 0

    @property
    def is_busy(self) -> bool:
        """If True, a thread computes."""
        return self._turn.locked()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other thread computes.

        Raises:
            HttpError: 503, the queue is full.
        """
        with self._lock:
            if self.length == self.longest:
                raise HttpError(
                    503,
                    "busy",
                    f"{self.longest} questions wait for an answer that takes seconds, "
                    "the maximum of this server. Try again later.",
                    retry_after=RETRY_SECONDS,
                )
            self.length += 1
        try:
            with self._turn:
                yield
        finally:
            with self._lock:
                self.length -= 1


QUEUES = {
    "quick": Queue(),
    "slow": Queue(MAX_SLOW),
    "pages": Queue(),
    "slow_pages": Queue(),
    "reports": Queue(),
}


def failures() -> int:
    """Return the number of parts of this request's answer that failed so far."""
    found: int = g.get("failures", 0)
    return found


def note_failure() -> None:
    """Note that a part of this request's answer failed, so it must not be cached."""
    g.failures = failures() + 1


class AnswerCache:
    """A cache of answers that drops the least recently used ones."""

    def __init__(self, size: int = ANSWERS) -> None:
        """Create a cache of at most ``size`` answers."""
        self._size = size
        self._lock = Lock()
        self._answers: OrderedDict[Hashable, bytes] = OrderedDict()

    def answer(
        self,
        question: Hashable,
        queue: str,
        compute: Callable[[], bytes],
        is_whole: Callable[[], bool] = lambda: True,
    ) -> bytes:
        """Return the answer, computing a new one when its queue is free.

        Args:
            question: Key of the answer.
            queue: One of ``QUEUES``.
            compute: Returns the answer; called if the question is new.
            is_whole: Called after ``compute``; if False, the answer is not cached.

        Raises:
            HttpError: 503, the queue is full.
        """
        if (known := self._known(question)) is not None:
            return known
        with QUEUES[queue].turn():
            if (known := self._known(question)) is not None:  # another thread stored it
                return known
            computed = compute()
            if is_whole():
                self._store(question, computed)
            return computed

    def _store(self, question: Hashable, computed: bytes) -> None:
        with self._lock:
            self._answers[question] = computed
            if len(self._answers) > self._size:
                self._answers.popitem(last=False)

    def _known(self, question: Hashable) -> bytes | None:
        with self._lock:
            if question in self._answers:
                self._answers.move_to_end(question)
            return self._answers.get(question)


def cached_answers(view: View, queue: str) -> View:
    """Return a view whose JSON answers are cached by query.

    Args:
        view: Called with ``query``, a hashable model; its answers have status 200.
        queue: One of ``QUEUES``.
    """
    cache = AnswerCache()

    def cached(query: Hashable) -> Response:
        text = cache.answer(query, queue, lambda: view(query=query).get_data())
        return Response(text, mimetype="application/json")

    return cached


def cached_page(
    render: Callable[[], str], queue: str = "pages", *, state: Hashable = None
) -> Response:
    """Return a page that depends on its address and a state alone.

    Args:
        render: Returns the page; called if the address or the state is new.
        queue: One of ``QUEUES``.
        state: Everything else that the page depends on.
    """
    cache: AnswerCache = current_app.extensions["pages"]
    address = (request.path, request.query_string, state)
    before = failures()
    packed = cache.answer(
        address,
        queue,
        lambda: brotli_of(render().encode()),
        is_whole=lambda: failures() == before,
    )
    takes_packed = request.accept_encodings["br"] > 0
    response = Response(packed if takes_packed else brotli.decompress(packed))
    response.vary.add("Accept-Encoding")
    if takes_packed:
        response.content_encoding = "br"
    return response
