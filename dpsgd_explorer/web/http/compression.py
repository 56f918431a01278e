"""Pages and JSON are sent compressed; static files are compressed ahead, see assets."""

from __future__ import annotations

import gzip

from flask import Response, request

KINDS = ("text/html", "application/json", "text/csv")
LEAST_BYTES = 1024  # below it the saving does not pay
LEVEL = 5


def compress(response: Response) -> Response:
    """Compress what is worth it, for a client that can read it; never a stream."""
    is_packed = response.content_encoding is not None
    if is_packed or response.is_streamed or response.mimetype not in KINDS:
        return response
    response.vary.add("Accept-Encoding")
    body = response.get_data()
    if len(body) >= LEAST_BYTES and request.accept_encodings["gzip"] > 0:
        response.set_data(gzip.compress(body, LEVEL, mtime=0))
        response.content_encoding = "gzip"
    return response
