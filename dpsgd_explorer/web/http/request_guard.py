"""What every request must be, before a view sees it.

It is addressed to a name of this site: a page of another site whose name leads to this
machine (DNS rebinding) passes for ours in the browser's eyes.  The cookie is
SameSite=Lax and bodies are JSON only, so another site's form cannot launch a run; the
browser's own word on where a request comes from is checked too.
"""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

from flask import current_app, request
from werkzeug.exceptions import RequestEntityTooLarge

from dpsgd_explorer.web.http.errors import HttpError

LARGEST_BODY = 64 * 1024
# A table is at most 2 MiB; of more than that, a page says so up to here.
LARGEST_UPLOADS = {"data.upload": 8 * 2**20}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITE = frozenset({"same-origin", "none"})  # none: the address bar
PORT = re.compile(r":\d*$")


def check_request() -> None:
    """Refuse another site's name, a large body, a change another site asks for.

    Raises:
        HttpError: 400, the request is to another site; 403, it comes from one; 411,
            its body may end at any time, or never, and would hold a thread till then.
        RequestEntityTooLarge: 413.
    """
    _check_host()
    if "Transfer-Encoding" in request.headers:
        raise HttpError(
            411,
            "length_required",
            "a request with a body must have the header Content-Length.",
        )
    largest = LARGEST_UPLOADS.get(request.endpoint or "", LARGEST_BODY)
    if (request.content_length or 0) > largest:
        raise RequestEntityTooLarge
    request.max_content_length = largest + 1
    if request.method not in SAFE_METHODS:
        _check_origin()


def json_body() -> object:
    """Return the parsed body.

    Raises:
        HttpError: 415 for another content type, 400 for what is not JSON.
    """
    if not request.is_json:
        came = repr(request.mimetype) if request.mimetype else "none"
        raise HttpError(
            415,
            "unsupported_media_type",
            f"the content type must be application/json, got {came}.",
        )
    try:
        return json.loads(request.get_data())
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError as error:  # not UTF-8, not JSON, or a number of 5,000 digits
        problem = str(error)
    raise HttpError(400, "bad_request", f"the body is not valid JSON: {problem}.")


def _check_host() -> None:
    """Compare the Host header; Flask's TRUSTED_HOSTS knows no IPv6 address."""
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
    """Believe the browser; a client that is none sends neither header."""
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
