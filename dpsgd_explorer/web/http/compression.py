"""Pages and JSON are sent compressed; static files are compressed ahead, see assets."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial

import brotli
from flask import Response, request

KINDS = ("text/html", "application/json", "text/csv")
LEAST_BYTES = 1024  # below it the saving does not pay
GZIP_LEVEL = 5
BROTLI_QUALITY = 5  # smaller than gzip, and as fast; 11 takes seconds for plotly.js

brotli_of = partial(brotli.compress, quality=BROTLI_QUALITY)
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {  # in order of preference
    "br": brotli_of,
    "gzip": partial(gzip.compress, compresslevel=GZIP_LEVEL, mtime=0),
}


def compress(response: Response) -> Response:
    """Compress what is worth it, for a client that can read it; never a stream."""
    is_packed = response.content_encoding is not None
    if is_packed or response.is_streamed or response.mimetype not in KINDS:
        return response
    response.vary.add("Accept-Encoding")
    body = response.get_data()
    readable = [name for name in ENCODINGS if request.accept_encodings[name] > 0]
    if len(body) >= LEAST_BYTES and readable:
        response.set_data(ENCODINGS[readable[0]](body))
        response.content_encoding = readable[0]
    return response
