"""The service about itself: is it alive, and what can it be asked."""

from __future__ import annotations

from flask import Blueprint, Response, current_app, jsonify
from pydantic import BaseModel

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.operation.readiness import Readiness
from dpsgd_explorer.web.api.openapi import specification
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.errors import HttpError
from dpsgd_explorer.web.http.services import settings

bp = Blueprint("service_api", __name__)
RETRY_SECONDS = 5


class Health(BaseModel):
    """That the process answers."""

    status: str
    version: str
    profile: str


class Ready(BaseModel):
    """What was seen of ``database``, ``schema``, ``queue`` and ``worker``."""

    status: str
    checks: dict[str, str]


@operation(bp, "GET", "/healthz")
def healthz() -> Health:
    """Say that this process answers, whatever it depends on."""
    return Health(status="ok", version=__version__, profile=settings().profile)


@operation(bp, "GET", "/readyz", errors=(503,))
def readyz() -> Ready:
    """Say that runs would be carried out: database, schema, queue, a worker."""
    readiness: Readiness = current_app.extensions["readiness"]
    checks = readiness.checks()
    failed = [
        f"{check.name}: {check.says.rstrip('.')}" for check in checks if not check.is_ok
    ]
    if failed:
        raise HttpError(
            503, "not_ready", f"{'; '.join(failed)}.", retry_after=RETRY_SECONDS
        )
    return Ready(status="ready", checks={check.name: check.says for check in checks})


@operation(bp, "GET", "/openapi.json")
def openapi() -> Response:
    """Return this specification."""
    return jsonify(specification(current_app))
