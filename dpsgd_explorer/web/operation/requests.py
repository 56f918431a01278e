"""Times and numbers of requests, and their lines in a log of JSON.

A stream counts until its first byte.  Static files are served before Flask and are not
counted.  An address is logged as the route it leads to: a run's id in a path is all one
needs to read the run.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from flask import Flask, Response, current_app, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram

from dpsgd_explorer.logs import REQUESTS

NO_ROUTE = "none"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
logger = logging.getLogger(REQUESTS)


class RequestTimes:
    """How long the requests take that this process answers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the metrics."""
        self._seconds = Histogram(
            "dpsgd_request_seconds",
            "Time until an answer's first byte, by endpoint, in this process",
            ["endpoint"],
            buckets=SECONDS,
            registry=registry,
        )
        self._requests = Counter(
            "dpsgd_requests",
            "Requests answered, by endpoint and status, in this process",
            ["endpoint", "status"],
            registry=registry,
        )

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._seconds.labels(endpoint).observe(seconds)
        self._requests.labels(endpoint, str(status)).inc()


def measure(app: Flask) -> None:
    """Measure every request of an application from now on."""
    app.before_request(_begin)
    app.after_request(_end)
    app.log_exception = partial(_log_fault, app)  # type: ignore[method-assign]


def _begin() -> None:
    g.begun = time.perf_counter()


def _end(response: Response) -> Response:
    seconds = time.perf_counter() - g.begun
    times: RequestTimes = current_app.extensions["request_times"]
    times.count(request.endpoint or NO_ROUTE, response.status_code, seconds)
    logger.info(
        "answered",
        extra={
            "method": request.method,
            "path": _route(),
            "status": response.status_code,
            "ms": round(1000 * seconds, 1),
        },
    )
    return response


def _route() -> str:
    return request.url_rule.rule if request.url_rule else NO_ROUTE


def _log_fault(app: Flask, exc_info: Any) -> None:
    """Log an exception that no handler expects; Flask would name the path."""
    asked = (_route(), request.method)
    app.logger.error("Exception on %s [%s]", *asked, exc_info=exc_info)
