"""Acceptance of forwarded client addresses and user names from trusted proxies only.

A trusted proxy may set X-Forwarded-For, X-Forwarded-Proto and the header with the name
of the logged-in user.  These headers are ignored if any other peer sets them.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from werkzeug.middleware.proxy_fix import ProxyFix

Environ = dict[str, Any]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
#: Key of the user's name in the WSGI environment; clients cannot set it.
USER = "dpsgd.user"
#: Key that is set if a proxy forwarded a request without its client's address.
UNNAMED = "dpsgd.unnamed"
FORWARDED_FOR = "HTTP_X_FORWARDED_FOR"
#: Above the largest body that nginx forwards.
LARGEST_REST = 10 * 2**20
logger = logging.getLogger(__name__)


class TrustedProxies:
    """Middleware that accepts a proxy's headers from trusted peers only."""

    def __init__(self, app: WsgiApp, networks: Sequence[str], user_header: str) -> None:
        """Wrap an application.

        Args:
            app: The wrapped application.
            networks: Addresses of trusted proxies; empty: every peer is trusted.
            user_header: Header with the name of the logged-in user; "" for none.
        """
        self._app = app
        # The proxy forwards Host unchanged; it must not add a path prefix.
        self._behind_proxy = ProxyFix(app, x_for=1, x_proto=1, x_host=0)
        self._networks = [ipaddress.ip_network(network) for network in networks]
        self._user_key = "HTTP_" + user_header.upper().replace("-", "_")
        self._has_user = bool(user_header)
        self._has_warned = False

    def __call__(
        self, values: Environ, start_response: Callable[..., Any], /
    ) -> Iterable[bytes]:
        """Answer a request."""
        name = values.pop(self._user_key, "").strip() if self._has_user else ""
        if self._is_trusted(values.get("REMOTE_ADDR", "")):
            if name:
                values[USER] = name
            values[UNNAMED] = not values.get(FORWARDED_FOR, "").strip()
            response = self._behind_proxy(values, start_response)
            _read_rest(values)
            return response
        if name or FORWARDED_FOR in values:
            self._warn()
        return self._app(values, start_response)

    def _is_trusted(self, address: str) -> bool:
        try:
            peer = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return not self._networks
        if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped:
            peer = peer.ipv4_mapped
        return not self._networks or any(peer in network for network in self._networks)

    def _warn(self) -> None:
        """Log a warning once; a client could send any number of such requests."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "a peer that is not in DPSGD_TRUSTED_PROXIES sent headers of a proxy; "
                "they are ignored. Further such headers are ignored without a message"
            )


def _read_rest(values: Environ) -> None:
    """Read the unread rest of a request's body, for example at an unknown address.

    If the connection closes while a proxy still sends the body, the proxy reports an
    error 502 instead of the application's response.
    """
    length = values.get("CONTENT_LENGTH") or "0"
    if length.isdecimal() and int(length) <= LARGEST_REST:
        while values["wsgi.input"].read(2**16):
            pass


def user_of(values: Environ) -> str:
    """Return the user that a trusted proxy names in a request; "" for none."""
    name: str = values.get(USER, "")
    return name


def is_unnamed(values: Environ) -> bool:
    """Return True if a proxy forwarded a request without its client's address."""
    return bool(values.get(UNNAMED))
