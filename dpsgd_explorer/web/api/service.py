"""Routes about the service itself: health, readiness, specification."""

from __future__ import annotations

from flask import Blueprint, Response, current_app, jsonify
from pydantic import BaseModel

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.operation.readiness import Readiness
from dpsgd_explorer.web.api.openapi import specification
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.errors import HttpError
from dpsgd_explorer.web.http.services import settings, signing_keys

bp = Blueprint("service_api", __name__)
RETRY_SECONDS = 5
PEM = "application/x-pem-file"


class Health(BaseModel):
    """Answer of a running process."""

    status: str
    version: str
    profile: str


class Ready(BaseModel):
    """Results of the checks of ``database``, ``schema``, ``queue`` and ``worker``."""

    status: str
    checks: dict[str, str]


@operation(bp, "GET", "/healthz")
def healthz() -> Health:
    """Returns 200 while this process answers.

    The answer does not depend on the database, the queue or the workers.
    """
    return Health(status="ok", version=__version__, profile=settings().profile)


@operation(bp, "GET", "/readyz", errors=(503,))
def readyz() -> Ready:
    """Returns 200 if the site can start runs, otherwise 503.

    The check covers the database, its schema, the queue and the workers. A failure
    names each part that fails.
    """
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


@operation(bp, "GET", "/receipt-keys.pem", media_types=(PEM,))
def receipt_keys() -> Response:
    """Downloads the public keys of the site, with which its receipts can be checked.

    The command ``dpsgd verify --key FILE`` takes the answer. Keys of receipts that were
    signed earlier are included.
    """
    keys = signing_keys()
    if keys is None:
        raise HttpError(404, "not_found", "This site does not sign its receipts.")
    disposition = {"Content-Disposition": 'attachment; filename="receipt-keys.pem"'}
    return Response(keys.public_pem, mimetype=PEM, headers=disposition)


@operation(bp, "GET", "/openapi.json")
def openapi() -> Response:
    """Returns this specification.

    The document has the format OpenAPI 3.1 and is generated from the routes.
    """
    return jsonify(specification(current_app))
