"""Who may say for whom it asks: proxies whose addresses the operator trusts.

Of a trusted proxy, X-Forwarded-For and X-Forwarded-Proto count, and the header that
names the user who is logged in there.  Of any other peer none does.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from werkzeug.middleware.proxy_fix import ProxyFix

Environ = dict[str, Any]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
#: Where the name of the user stands for the application; no client can write it.
USER = "dpsgd.user"
#: Set where a proxy passed on a request without the address of its client.
UNNAMED = "dpsgd.unnamed"
FORWARDED_FOR = "HTTP_X_FORWARDED_FOR"
#: Above what nginx passes on.
LARGEST_REST = 10 * 2**20
logger = logging.getLogger(__name__)


class TrustedProxies:
    """Passes on what trusted proxies say, and drops what others do."""

    def __init__(self, app: WsgiApp, networks: Sequence[str], user_header: str) -> None:
        """Do nothing yet.

        Args:
            app: The application behind it.
            networks: Addresses of proxies; none: every peer is one.
            user_header: Names the user who is logged in; "": none does.
        """
        self._app = app
        # The proxy passes Host itself on; a path before ours it may not have.
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
            answer = self._behind_proxy(values, start_response)
            _read_rest(values)
            return answer
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
        return not self._networks or any(peer in each for each in self._networks)

    def _warn(self) -> None:
        """Log it once: a client can send as many such requests as it likes."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "a peer that is not in DPSGD_TRUSTED_PROXIES sent headers of a proxy; "
                "they are ignored. Further such headers are ignored without a message"
            )


def _read_rest(values: Environ) -> None:
    """Read what the application has left of a body, as of one for an unknown address.

    A proxy that still sends it takes the end of the connection for a fault, and answers
    502 in place of what the application says.
    """
    length = values.get("CONTENT_LENGTH") or "0"
    if length.isdecimal() and int(length) <= LARGEST_REST:
        while values["wsgi.input"].read(2**16):
            pass


def user_of(values: Environ) -> str:
    """Return the user whom a trusted proxy names in a request; "" if none."""
    name: str = values.get(USER, "")
    return name


def is_unnamed(values: Environ) -> bool:
    """Return True if a proxy passed on a request without its client's address."""
    return bool(values.get(UNNAMED))
