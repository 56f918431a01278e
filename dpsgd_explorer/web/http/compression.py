"""Compression of pages and JSON; ``assets`` compresses static files in advance."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial

import brotli
from flask import Response, request

KINDS = ("text/html", "application/json", "text/csv")
LEAST_BYTES = 1024  # smaller responses are sent uncompressed
GZIP_LEVEL = 5
BROTLI_QUALITY = 5  # smaller and as fast as gzip; 11 takes seconds for plotly.js

brotli_of = partial(brotli.compress, quality=BROTLI_QUALITY)
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {  # in order of preference
    "br": brotli_of,
    "gzip": partial(gzip.compress, compresslevel=GZIP_LEVEL, mtime=0),
}


def compress(response: Response) -> Response:
    """Compress a response if it is worthwhile and the client accepts it; no streams."""
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
