"""Checks that every request passes before a view handles it.

The host must be a name of this site, because a page of another site whose name
resolves to this machine (DNS rebinding) counts as same-origin in the browser.  The
cookie is SameSite=Lax and bodies must be JSON, so a form on another site cannot launch
a run.  The browser's headers on the origin of a request are checked too.
"""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

from flask import current_app, request
from werkzeug.exceptions import RequestEntityTooLarge

from dpsgd_explorer.web.http.errors import HttpError

LARGEST_BODY = 64 * 1024
# A table has at most 2 MiB; larger uploads up to this limit get an explanation.
LARGEST_UPLOADS = {"data.upload": 8 * 2**20}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITE = frozenset({"same-origin", "none"})  # none: typed into the address bar
PORT = re.compile(r":\d*$")


def check_request() -> None:
    """Reject foreign hosts, large bodies, and changes requested by other sites.

    Raises:
        HttpError: 400 for a foreign host, 403 for a change requested by another site,
            411 for a body of unknown length, which could occupy a thread forever.
        RequestEntityTooLarge: 413.
    """
    _check_host()
    if "Transfer-Encoding" in request.headers:
        raise HttpError(
            411,
            "length_required",
            "a request with a body must have the header Content-Length.",
        )
    maximum = LARGEST_UPLOADS.get(request.endpoint or "", LARGEST_BODY)
    if (request.content_length or 0) > maximum:
        raise RequestEntityTooLarge
    request.max_content_length = maximum + 1
    if request.method not in SAFE_METHODS:
        _check_origin()


def json_body() -> object:
    """Return the parsed body.

    Raises:
        HttpError: 415 for another content type, 400 for invalid JSON.
    """
    if not request.is_json:
        received = repr(request.mimetype) if request.mimetype else "none"
        raise HttpError(
            415,
            "unsupported_media_type",
            f"the content type must be application/json, got {received}.",
        )
    try:
        return json.loads(request.get_data())
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError as error:  # not UTF-8, not JSON, or a number of 5,000 digits
        problem = str(error)
    raise HttpError(400, "bad_request", f"the body is not valid JSON: {problem}.")


def _check_host() -> None:
    """Check the Host header; Flask's TRUSTED_HOSTS does not support IPv6 addresses."""
    trusted = current_app.extensions["settings"].trusted_hosts
    if PORT.sub("", request.host).lower() not in trusted:
        raise HttpError(
            400,
            "untrusted_host",
            f"the host must be one of {', '.join(sorted(trusted))}, got "
            f"{request.host!r}. The operator of the site adds host names to "
            "DPSGD_HOSTS.",
        )


def _check_origin() -> None:
    """Trust the browser's origin headers; clients other than browsers send neither."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site in OWN_SITE:
        return
    if site is None and (origin is None or urlsplit(origin).netloc == request.host):
        return
    message = "this address accepts changes only from pages of this site."
    if site is None:
        message += (
            f" The page is from {origin}, the request is for {request.host!r}. If a "
            "proxy is in between, it must forward the Host header "
            "(docs/how-to/operate/proxies.md)."
        )
    raise HttpError(403, "cross_site", message)
