"""``/metrics`` for Prometheus, not public.

The address answers programs on this machine without a proxy, and requests with the
token of DPSGD_METRICS_TOKEN.  All other requests get the response to a missing page.
"""

from __future__ import annotations

import hmac
import ipaddress

from flask import Blueprint, Response, abort, current_app, request
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from dpsgd_explorer.runs.operation.fleet import Fleet
from dpsgd_explorer.web.http.services import settings
from dpsgd_explorer.web.http.stream_limit import Listeners
from dpsgd_explorer.web.operation.collector import SiteCollector

bp = Blueprint("metrics", __name__)
#: Headers of a proxy, which forwards the request of another machine.
FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via")


@bp.get("/metrics")
def metrics() -> Response:
    """Return all metrics as text."""
    if not (_has_token(settings().operation.metrics_token) or _is_of_this_machine()):
        abort(404)
    registry: CollectorRegistry = current_app.extensions["metrics"]
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def site_registry(fleet: Fleet, listeners: Listeners) -> CollectorRegistry:
    """Return the registry of this process and its site; requests add their metrics."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(SiteCollector(fleet, listeners))
    return registry


def _is_of_this_machine() -> bool:
    if any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.remote_addr or "").is_loopback
    except ValueError:
        return False


def _has_token(token: str) -> bool:
    """Return whether this request sends the token; False if the site has none."""
    scheme, _, sent_token = request.headers.get("Authorization", "").partition(" ")
    is_equal = hmac.compare_digest(sent_token.encode(), token.encode())
    return bool(token) and scheme.lower() == "bearer" and is_equal
