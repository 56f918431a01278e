"""The service about itself: is it alive, and what can it be asked."""

from __future__ import annotations

import time

from flask import Blueprint, Response, current_app, jsonify
from pydantic import BaseModel

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.worker.heartbeat import HUNG_SECONDS, seconds_since_any
from dpsgd_explorer.web.api.openapi import specification
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.errors import HttpError
from dpsgd_explorer.web.http.services import run_store, settings

bp = Blueprint("service_api", __name__)


class Health(BaseModel):
    """Liveness; ``runs`` counts them by state, ``queued`` being the queue's depth.

    ``worker_seen_seconds_ago`` is null while the first worker starts.
    """

    status: str
    version: str
    profile: str
    worker_seen_seconds_ago: float | None
    runs: dict[str, int]


@operation(bp, "GET", "/healthz", errors=(503,))
def healthz() -> Health:
    """Say that the server answers, its database can be read and a worker is there."""
    store = run_store()
    return Health(
        status="ok",
        version=__version__,
        profile=settings().profile,
        worker_seen_seconds_ago=_worker_seen(),
        runs=store.counts(),
    )


def _worker_seen() -> float | None:
    """Return how long ago a worker was seen; 503 if that is too long."""
    environment = settings()
    seconds = seconds_since_any(environment.instance_dir)
    silent = time.monotonic() - current_app.extensions["started_at"]
    if (silent if seconds is None else seconds) > HUNG_SECONDS:
        raise HttpError(
            503,
            "no_worker",
            f"no worker was seen for {seconds or silent:.0f} seconds: runs are queued, "
            "none is trained. The server's log says more.",
            retry_after=round(HUNG_SECONDS),
        )
    return None if seconds is None else round(seconds, 1)


@operation(bp, "GET", "/openapi.json")
def openapi() -> Response:
    """Return this specification."""
    return jsonify(specification(current_app))
