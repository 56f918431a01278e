"""The network that an address belongs to, as quotas count it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

# What one household or one office commonly has.
PREFIX_BITS = {4: 24, 6: 64}


def network_of(address: str | None, exempt: Sequence[str] = ()) -> str:
    """Return the /24 or /64 of an address; "" if no quota counts it.

    Args:
        address: As the web server names its peer; None or a file's name (a Unix
            socket) is no address.
        exempt: Networks that no quota counts.
    """
    try:
        peer = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""
    if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped:
        peer = peer.ipv4_mapped
    if any(peer in ipaddress.ip_network(network) for network in exempt):
        return ""
    return str(ipaddress.ip_network((peer, PREFIX_BITS[peer.version]), strict=False))
