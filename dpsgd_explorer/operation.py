"""Settings of those who operate a site: its log, its tokens.

A secret is given by its variable, or by a file that the variable of the same name with
``_FILE`` leads to: ``DPSGD_ADMIN_TOKEN_FILE=/run/secrets/admin_token``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import one_of

HEADER = re.compile("[A-Za-z0-9-]+")
LOG_FORMATS = ("text", "json")
#: Variables that may be given by a file.
SECRETS = (
    "DPSGD_DATABASE_URL",
    "DPSGD_QUEUE_URL",
    "DPSGD_ADMIN_TOKEN",
    "DPSGD_METRICS_TOKEN",
    "DPSGD_SECRET_KEY",
)
#: Secrets of the web server alone; workers and nginx need none of them.
WEB_SECRETS = ("DPSGD_ADMIN_TOKEN", "DPSGD_METRICS_TOKEN", "DPSGD_SECRET_KEY")
#: A token that is drawn at random has 6 bits a character: 16 are 96 bits.
LEAST_TOKEN = 16


@dataclass(frozen=True, kw_only=True)
class Operation:
    """How a site is watched and steered.

    Attributes:
        log_format: One of LOG_FORMATS.
        trusted_proxies: Networks of the proxies that say who asks; () if none is named.
        user_header: In which these name the user who is logged in; "": they do not.
        admin_token: Makes who has it the operator; "": there is no operator's page.
        metrics_token: Opens ``/metrics`` from other machines; "" if nothing does.
        secret_key: Signs cookies, where several web servers have to know each other's;
            "": a key is made in the instance folder.
    """

    log_format: str = "text"
    trusted_proxies: tuple[str, ...] = ()
    user_header: str = ""
    admin_token: str = ""
    metrics_token: str = ""
    secret_key: str = ""

    @classmethod
    def from_values(cls, values: Mapping[str, str]) -> Self:
        """Read the variables; ConfigError names the one that is wrong."""
        proxies = _networks(values.get("DPSGD_TRUSTED_PROXIES", ""))
        return cls(
            trusted_proxies=proxies,
            user_header=_user_header(values.get("DPSGD_USER_HEADER", ""), proxies),
            log_format=one_of(
                "DPSGD_LOG_FORMAT",
                values.get("DPSGD_LOG_FORMAT", cls.log_format),
                LOG_FORMATS,
            ),
            admin_token=_token(values, "DPSGD_ADMIN_TOKEN"),
            metrics_token=_token(values, "DPSGD_METRICS_TOKEN"),
            secret_key=_token(values, "DPSGD_SECRET_KEY"),
        )

    def to_environment(self) -> dict[str, str]:
        """Return the variables that give these settings to a process of ours."""
        return {
            f"DPSGD_{field.name.upper()}": _text(getattr(self, field.name))
            for field in fields(self)
        }


def with_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, with those that are given by files read from there.

    Raises:
        ConfigError: a file cannot be read.
    """
    return dict(values) | {
        name: _content(f"{name}_FILE", file)
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


def _content(name: str, file: str) -> str:
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(
            name, f"{name} must be a file that can be read: {file}: {reason}."
        ) from None


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
    """Check the name of a header; whoever can send it is whom it names."""
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
    if token and (len(token) < LEAST_TOKEN or not token.isascii()):
        raise ConfigError(
            name,
            f"{name} must be at least {LEAST_TOKEN} random ASCII characters, got "
            f'{len(token)}. Create one with: python -c "import secrets; '
            'print(secrets.token_urlsafe(32))"',
        )
    return token


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
