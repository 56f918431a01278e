"""The service about itself: is it alive, and what can it be asked."""

from __future__ import annotations

from flask import Blueprint, Response, current_app, jsonify
from pydantic import BaseModel

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.store import RunStore
from dpsgd_explorer.web.openapi import specification
from dpsgd_explorer.web.operation import operation, reply

bp = Blueprint("service_api", __name__)


class Health(BaseModel):
    """Liveness; ``runs`` counts them by state, ``queued`` being the queue's depth."""

    status: str
    version: str
    profile: str
    runs: dict[str, int]


@operation(bp, "GET", "/healthz", answer=Health, errors=(503,))
def healthz() -> Response:
    """Say that the server answers and its database can be read."""
    store: RunStore = current_app.extensions["run_store"]
    return reply(
        Health(
            status="ok",
            version=__version__,
            profile=current_app.extensions["settings"].profile,
            runs=store.counts(),
        )
    )


@operation(bp, "GET", "/openapi.json")
def openapi() -> Response:
    """Return this specification."""
    return jsonify(specification(current_app))
