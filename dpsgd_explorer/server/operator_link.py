"""The link that makes a browser the operator's."""

from __future__ import annotations

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.settings import Settings, public_url
from dpsgd_explorer.web.operation import gate

MINUTES = gate.SECONDS[gate.LINK] // 60


def operator_link(settings: Settings, site: str | None = None) -> str:
    """Return the address of the entrance, good for ``MINUTES``.

    Args:
        settings: Settings of the site.
        site: Address of the site; None for the address of its web server.

    Raises:
        ConfigError: there is no token to sign the link, or ``site`` is not an address.
    """
    token = settings.operation.admin_token
    if not token:
        raise ConfigError(
            "DPSGD_ADMIN_TOKEN",
            "DPSGD_ADMIN_TOKEN must be set here to the same value as for the site; "
            "without it the site has no operator's page.",
        )
    address = public_url("--site", site or f"http://{settings.host}:{settings.port}")
    return f"{address}{gate.PATH}enter/{gate.sign(token, gate.LINK)}"
