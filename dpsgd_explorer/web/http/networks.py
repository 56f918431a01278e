"""The network that a request comes from, as quotas count it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from flask import request

from dpsgd_explorer.web.http.proxies import is_unnamed
from dpsgd_explorer.web.http.services import settings

# One customer of a provider commonly has these bits: an office, a household.
PREFIX_BITS = {4: 24, 6: 48}
# Requests whose address is not known count together, or they would count nowhere.
UNKNOWN = "of unknown address"


def request_network() -> str:
    """Return the network of this request; "" if no quota counts it.

    A proxy that passes no address of its client speaks for all its clients: they count
    as one network, even if the operator exempts the network of the proxy.
    """
    exempt = () if is_unnamed(request.environ) else settings().quotas.exempt_networks
    return network_of(request.remote_addr, exempt)


def network_of(address: str | None, exempt: Sequence[str] = ()) -> str:
    """Return the /24 or /48 of an address; "" if it is in an exempt network.

    Args:
        address: Address of the client; None or a file's name (a Unix socket) is no
            address.
        exempt: Networks that no quota counts.
    """
    try:
        peer = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return UNKNOWN
    if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped:
        peer = peer.ipv4_mapped
    if any(peer in ipaddress.ip_network(network) for network in exempt):
        return ""
    return str(ipaddress.ip_network((peer, PREFIX_BITS[peer.version]), strict=False))
