"""Error responses in one format, and the table of their status codes."""

from __future__ import annotations

import http
import re

from flask import (
    Flask,
    Response,
    current_app,
    jsonify,
    make_response,
    render_template,
    request,
)
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from dpsgd_explorer.errors import (
    AccountingError,
    ClassNotFoundError,
    ClassOverError,
    ConfigError,
    DivergedError,
    ExplorerError,
    QuotaError,
    RunNotFoundError,
    StorageBusyError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnreachableError,
)

STATUS: dict[type[ExplorerError], tuple[int, str]] = {
    ConfigError: (422, "invalid_config"),
    AccountingError: (422, "invalid_privacy_question"),
    DivergedError: (422, "diverged"),
    RunNotFoundError: (404, "run_not_found"),
    ClassNotFoundError: (404, "class_not_found"),
    ClassOverError: (410, "class_over"),
    QuotaError: (429, "over_quota"),
    StorageFullError: (507, "storage_full"),
    StorageBusyError: (503, "storage_busy"),
    StorageUnreachableError: (503, "storage_unreachable"),
    StorageReadOnlyError: (507, "storage_read_only"),
}
BUSY_RETRY_SECONDS = 5
KEPT_HEADERS = ("Allow", "Retry-After")
FOR_PROGRAMS = re.compile(r"/(api/|healthz$|readyz$|openapi\.json$)")
EXPLANATIONS = {
    404: "This address does not exist.",
    413: "The body is larger than 64 KB.",
    500: "The server failed to answer. The log of the server contains the error.",
}


class HttpError(ExplorerError):
    """An error that the web layer itself raises."""

    def __init__(
        self, status: int, code: str, message: str, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


def add_error_handlers(app: Flask) -> None:
    """Register handlers for the package's and Flask's exceptions."""
    for kind in STATUS:
        app.register_error_handler(kind, _ours)
    app.register_error_handler(HttpError, _turned_down)
    app.register_error_handler(HTTPException, _flasks)


def error_reply(status: int, code: str, message: str, **details: object) -> Response:
    """Return an error response; ``code`` is for programs, ``message`` for people.

    Details that are None or empty are left out. A browser that requests a page
    gets a page; all addresses below ``/api/`` answer with JSON.
    """
    if _wants_page():
        title = http.HTTPStatus(status).phrase
        page = render_template(
            "errors/error.html",
            status=status,
            title=title,
            message=message[:1].upper() + message[1:],
        )
        response = make_response(page)
    else:
        present = {name: value for name, value in details.items() if value}
        error = {"code": code, "message": message, **present}
        catalogue = current_app.extensions.get("catalogue")
        response = jsonify(error=catalogue.data(error) if catalogue else error)
    response.status_code = status
    if details.get("retry_after"):
        response.headers["Retry-After"] = str(details["retry_after"])
    return response


def _wants_page() -> bool:
    if FOR_PROGRAMS.match(request.path):
        return False
    accepted = request.accept_mimetypes
    return accepted["text/html"] > accepted["application/json"]


def _ours(error: ExplorerError) -> Response:
    status, code = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    details = {
        name: getattr(error, name, None) for name in ("field", "fields", "retry_after")
    }
    if isinstance(error, StorageBusyError):
        details["retry_after"] = BUSY_RETRY_SECONDS
    return error_reply(status, code, str(error), **details)


def _turned_down(error: HttpError) -> Response:
    return error_reply(
        error.status, error.code, str(error), retry_after=error.retry_after
    )


def _flasks(error: HTTPException) -> Response | HTTPException:
    status = error.code or 500
    if status < 400:
        return error  # a redirection, not an error
    message = EXPLANATIONS.get(status, error.description or error.name)
    if isinstance(error, MethodNotAllowed):
        message = _allowed(error)
    response = error_reply(status, re.sub(r"\W+", "_", error.name.lower()), message)
    for name, value in error.get_headers(request.environ):
        if name in KEPT_HEADERS:
            response.headers[name] = value
    return response


def _allowed(error: MethodNotAllowed) -> str:
    """Return a message with the methods that the address allows."""
    methods = ", ".join(sorted(error.valid_methods or ())) or "none"
    return f"{request.method} is not allowed at this address. Allowed: {methods}."
