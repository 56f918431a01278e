"""What every request that changes something must be, before a view sees it.

The cookie is SameSite=Lax and bodies are JSON only, so another site's form cannot
launch a run; the browser's own word on where a request comes from is checked too.
"""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from dpsgd_explorer.web.errors import HttpError

LARGEST_BODY = 64 * 1024
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITE = frozenset({"same-origin", "none"})  # none: the address bar


def check_request() -> None:
    """Refuse a large body, and a change that another site asks for.

    Raises:
        HttpError: 403, the request comes from another site.
        RequestEntityTooLarge: 413.
    """
    if (request.content_length or 0) > LARGEST_BODY:
        raise RequestEntityTooLarge
    if request.method not in SAFE_METHODS and not _comes_from_here():
        raise HttpError(
            403, "cross_site", "this address takes changes from its own pages only."
        )


def json_body() -> object:
    """Return the parsed body.

    Raises:
        HttpError: 415 for another content type, 400 for what is not JSON.
        RequestEntityTooLarge: 413.
    """
    if not request.is_json:
        came = repr(request.mimetype) if request.mimetype else "none"
        raise HttpError(
            415,
            "unsupported_media_type",
            f"the content type must be application/json, got {came}.",
        )
    body = request.get_data()
    if len(body) > LARGEST_BODY:  # its length was not declared
        raise RequestEntityTooLarge
    try:
        return json.loads(body)
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError as error:  # not UTF-8, not JSON, or a number of 5,000 digits
        problem = str(error)
    raise HttpError(400, "bad_request", f"the body is not valid JSON: {problem}.")


def _comes_from_here() -> bool:
    """Believe the browser; a client that is none sends neither header."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in OWN_SITE
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host
