"""Settings for the operator of a site: log, proxies, tokens.

A secret is the value of a variable, or the content of a file.  The path of the file is
in the variable with ``_FILE`` added to the name:
``DPSGD_METRICS_TOKEN_FILE=/run/secrets/metrics_token``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.signatures import SigningKeys
from dpsgd_explorer.validation import file_text, one_of

HEADER = re.compile("[A-Za-z0-9-]+")
LOG_FORMATS = ("text", "json")
#: Variables whose values may be in files.
SECRETS = (
    "DPSGD_DATABASE_URL",
    "DPSGD_QUEUE_URL",
    "DPSGD_METRICS_TOKEN",
    "DPSGD_SECRET_KEY",
    "DPSGD_RECEIPT_KEY",
)
#: Secrets that only the web server needs; workers and nginx do not get them.
WEB_SECRETS = ("DPSGD_METRICS_TOKEN", "DPSGD_SECRET_KEY", "DPSGD_RECEIPT_KEY")
#: Smallest number of characters of a token: random ones have 6 bits each, in all 96.
MIN_TOKEN_CHARACTERS = 16


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Settings for monitoring and administration of a site.

    Attributes:
        log_format: One of LOG_FORMATS.
        trusted_proxies: Networks of the proxies whose forwarded headers are used.
        user_header: Header in which these proxies name the logged-in user; "" if they
            name no user.
        metrics_token: Token for ``/metrics`` from other machines; "" allows none.
        secret_key: Key that signs cookies, common to all web servers; "" means a key
            that is created in the instance folder.
        receipt_key: Ed25519 keys as PEM, of which the first private key signs receipts;
            "" means that receipts are not signed.
    """

    log_format: str = "text"
    trusted_proxies: tuple[str, ...] = ()
    user_header: str = ""
    metrics_token: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    receipt_key: str = field(default="", repr=False)

    @classmethod
    def from_values(cls, values: Mapping[str, str]) -> Self:
        """Reads the variables.

        Raises:
            ConfigError: names the first wrong variable.
        """
        proxies = _networks(values.get("DPSGD_TRUSTED_PROXIES", ""))
        return cls(
            trusted_proxies=proxies,
            user_header=_user_header(values.get("DPSGD_USER_HEADER", ""), proxies),
            log_format=one_of(
                "DPSGD_LOG_FORMAT",
                values.get("DPSGD_LOG_FORMAT", cls.log_format),
                LOG_FORMATS,
            ),
            metrics_token=_token(values, "DPSGD_METRICS_TOKEN"),
            secret_key=_token(values, "DPSGD_SECRET_KEY"),
            receipt_key=_receipt_key(values.get("DPSGD_RECEIPT_KEY", "")),
        )

    def to_environment(self) -> dict[str, str]:
        """Returns the variables with which another process gets these settings."""
        return {
            f"DPSGD_{each.name.upper()}": _text(getattr(self, each.name))
            for each in fields(self)
        }


def with_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables, with the values of secrets that are in files.

    Raises:
        ConfigError: a file cannot be read.
    """
    return dict(values) | {
        name: file_text(f"{name}_FILE", file).strip()
        for name in SECRETS
        if not values.get(name) and (file := values.get(f"{name}_FILE"))
    }


def without_secrets(
    values: Mapping[str, str], *, all_of_them: bool = False
) -> dict[str, str]:
    """Returns the variables without secrets, and without paths of files with secrets.

    Args:
        values: Variables of a process.
        all_of_them: If True, the addresses of database and queue are left out too.
    """
    secrets = SECRETS if all_of_them else WEB_SECRETS
    dropped = {*secrets, *(f"{name}_FILE" for name in secrets)}
    return {name: value for name, value in values.items() if name not in dropped}


def _networks(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    try:
        return tuple(str(ipaddress.ip_network(name)) for name in names if name)
    except ValueError as error:
        raise ConfigError(
            "DPSGD_TRUSTED_PROXIES",
            "DPSGD_TRUSTED_PROXIES must list addresses or networks of proxies, such as "
            f"10.0.0.7, 192.0.2.0/24, got {text!r} ({error}).",
        ) from None


def _user_header(name: str, proxies: tuple[str, ...]) -> str:
    """Checks the name of the header: a client that can send it can pose as any user."""
    if name and not HEADER.fullmatch(name):
        raise ConfigError(
            "DPSGD_USER_HEADER",
            "DPSGD_USER_HEADER must be the name of a header, letters, digits and "
            f"hyphens, such as X-Remote-User, got {name!r}.",
        )
    if name and not proxies:
        raise ConfigError(
            "DPSGD_TRUSTED_PROXIES",
            "DPSGD_TRUSTED_PROXIES must name the proxies if DPSGD_USER_HEADER is set; "
            "otherwise any client could send that header and pose as any user.",
        )
    return name


def _token(values: Mapping[str, str], name: str) -> str:
    token = values.get(name, "")
    if token and (len(token) < MIN_TOKEN_CHARACTERS or not token.isascii()):
        raise ConfigError(
            name,
            f"{name} must be at least {MIN_TOKEN_CHARACTERS} random ASCII characters, "
            f'got {len(token)}. Create one with: python -c "import secrets; '
            'print(secrets.token_urlsafe(32))"',
        )
    return token


def _receipt_key(text: str) -> str:
    if text:
        SigningKeys.from_pem("DPSGD_RECEIPT_KEY", text)
    return text


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
