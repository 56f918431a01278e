"""Durations and numbers of requests, and the log of requests as JSON.

The duration of a stream ends with its first byte.  Static files are served before Flask
and are not counted.  The log has the route of a request instead of its path, because
the id of a run in a path is sufficient to read the run.
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
    """Durations of the requests that this process answers."""

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
        """Count a response."""
        self._seconds.labels(endpoint).observe(seconds)
        self._requests.labels(endpoint, str(status)).inc()


def measure(app: Flask) -> None:
    """Measure every further request of an application."""
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
    """Log an unhandled exception with its route; Flask would log the path."""
    route_and_method = (_route(), request.method)
    app.logger.error("Exception on %s [%s]", *route_and_method, exc_info=exc_info)
