"""Security headers of every response, static files included.

The two hashes allow the two style elements that plotly.js creates: an empty one, whose
rules are added by script, and the style sheet of its map library.  The second hash
belongs to the pinned version; tests/web/http/test_csp.py computes it from the bundle.
See docs/decisions/0001-plotly-and-csp.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit

from flask import Response, request

EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
PLOTLY_MAP_STYLE = "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='"

CONTENT_SECURITY_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": f"'self' {EMPTY_STYLE} {PLOTLY_MAP_STYLE}",
    "img-src": "'self' data: blob:",  # plotly.js exports a PNG through both
    "font-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
# Sites that may frame the pages of a blueprint; no site may frame any other page.
FRAME_ANCESTORS = {"embed": "*"}
UNUSED_FEATURES = ("camera", "display-capture", "geolocation", "microphone", "payment")


def _text(policy: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {sources}" for name, sources in policy.items())


SECURITY_HEADERS = {
    "Content-Security-Policy": _text(CONTENT_SECURITY_POLICY),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in UNUSED_FEATURES),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class _Headers(Protocol):
    def __setitem__(self, name: str, value: str, /) -> None: ...


def add_security_headers(headers: _Headers) -> None:
    """Set the security headers on a response."""
    for name, value in SECURITY_HEADERS.items():
        headers[name] = value


def finish(response: Response) -> Response:
    """Add the headers; forbid caches to share responses, which depend on the visitor.

    A redirection gets a relative location, because the server may not know its public
    host name.
    """
    add_security_headers(response.headers)
    if ancestors := FRAME_ANCESTORS.get(request.blueprint or ""):
        _allow_frames(response.headers, ancestors)
    if response.location:
        path = urlsplit(response.location)._replace(scheme="", netloc="")
        response.location = path.geturl()
    response.headers.setdefault("Cache-Control", "private, no-cache")
    return response


def _allow_frames(headers: _Headers, ancestors: str) -> None:
    """Allow other sites to show the page in a frame; keep all other restrictions."""
    policy = CONTENT_SECURITY_POLICY | {"frame-ancestors": ancestors}
    headers["Content-Security-Policy"] = _text(policy)
    headers["Cross-Origin-Resource-Policy"] = "cross-origin"
