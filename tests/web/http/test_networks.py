"""Which addresses are one network."""

import pytest

from dpsgd_explorer.web.http.networks import UNKNOWN, network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("::ffff:192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2:3::9", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::/48"),
        ("127.0.0.1", ""),
        ("203.0.113.9", ""),
        ("", UNKNOWN),
        (None, UNKNOWN),
        ("@socket", UNKNOWN),
    ],
)
def test_an_address_belongs_to_its_network(address, network):
    assert network_of(address, ("127.0.0.0/8", "203.0.113.0/25")) == network
