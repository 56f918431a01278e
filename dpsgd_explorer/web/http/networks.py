"""The network of a request, for quotas."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from flask import request

from dpsgd_explorer.web.http.proxies import is_unnamed
from dpsgd_explorer.web.http.services import settings

# Prefix lengths that one customer of a provider, an office or household, usually has.
PREFIX_BITS = {4: 24, 6: 48}
# Requests without a known address share one quota; otherwise no quota would apply.
UNKNOWN = "of unknown address"


def request_network() -> str:
    """Return the network of this request; "" if it is exempt from quotas.

    If a proxy does not forward the addresses of its clients, all its clients count as
    one network, even if the operator exempts the network of the proxy.
    """
    exempt = () if is_unnamed(request.environ) else settings().quotas.exempt_networks
    return network_of(request.remote_addr, exempt)


def network_of(address: str | None, exempt: Sequence[str] = ()) -> str:
    """Return the /24 or /48 of an address; "" if it is in an exempt network.

    Args:
        address: Address of the client; None and the path of a Unix socket count as
            unknown.
        exempt: Networks without a quota.
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
