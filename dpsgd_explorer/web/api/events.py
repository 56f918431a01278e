"""A run's log as it grows: as a stream of server-sent events, or page by page.

Both have equal entries; the id of an event is its sequence number in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flask import Blueprint, Response, current_app, request

from dpsgd_explorer.runs.feed import Hub
from dpsgd_explorer.runs.store.records import Run, StoredEvent
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.networks import network_of
from dpsgd_explorer.web.http.services import run_store, settings
from dpsgd_explorer.web.http.stream_limit import Listeners
from dpsgd_explorer.web.http.visitor import current_visitor
from dpsgd_explorer.web.run_views.models import Log, LogEntry, Page, Position

bp = Blueprint("events_api", __name__, url_prefix="/api/v1/runs/<run_id>")

EVENT_STREAM = "text/event-stream"
POSITION = re.compile("[0-9]{1,15}")
RECONNECT_MS = 2000


@operation(bp, "GET", "/events", media_types=(EVENT_STREAM,), errors=(503,))
def events(run_id: str, query: Position) -> Response:
    """Streams the log of a run as server-sent events.

    The stream starts after the event in ``Last-Event-ID``, otherwise after ``after``.
    If the run has ended and no event follows, the answer is 204 and a browser stops
    reconnecting.
    """
    run = run_store().get(run_id)  # before the stream starts, for its error status
    after = _position(run, query.after)
    if run.has_ended and after == run.last_seq:
        return Response(status=204)
    listeners: Listeners = current_app.extensions["listeners"]
    visitor = _counted_visitor()
    listeners.enter(visitor)
    response = Response(
        _frames(current_app.extensions["hub"], run_id, after),
        mimetype=EVENT_STREAM,
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )
    # Also if the client closed the stream before its first frame.
    response.call_on_close(lambda: listeners.leave(visitor))
    return response


@operation(bp, "GET", "/events.json")
def log(run_id: str, query: Page) -> Log:
    """Returns the events of a run after a given event, oldest first.

    Use this route to poll the log. The events are the same as in the stream.
    """
    run = run_store().get(run_id)
    entries = run_store().events(run_id, query.after, query.limit, query.kind)
    return Log(
        state=run.state,
        last_seq=run.last_seq,
        events=[LogEntry.of(event) for event in entries],
    )


def frame(event: StoredEvent) -> str:
    """Return one server-sent event; its data is JSON on a single line."""
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {event.data}\n\n"


def _frames(hub: Hub, run_id: str, after: int) -> Iterator[str]:
    yield f"retry: {RECONNECT_MS}\n\n"
    for event in hub.follow(run_id, after):
        yield ": heartbeat\n\n" if event is None else frame(event)


def _position(run: Run, position: int) -> int:
    """Return the entry after which the stream starts; 0 for an invalid position."""
    text = request.headers.get("Last-Event-ID")
    if text is not None:
        position = int(text) if POSITION.fullmatch(text) else 0
    return position if position <= run.last_seq else 0


def _counted_visitor() -> str:
    """Return the key that counts this stream: a visitor or an address."""
    if visitor := current_visitor():
        return visitor
    is_counted = network_of(request.remote_addr, settings().quotas.exempt_networks)
    return request.remote_addr or "" if is_counted else ""
