"""Settings of those who operate a site: its log, its tokens.

A secret is given by its variable, or by a file that the variable of the same name with
``_FILE`` leads to: ``DPSGD_ADMIN_TOKEN_FILE=/run/secrets/admin_token``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import one_of

LOG_FORMATS = ("text", "json")
#: Variables that may be given by a file.
SECRETS = (
    "DPSGD_DATABASE_URL",
    "DPSGD_QUEUE_URL",
    "DPSGD_ADMIN_TOKEN",
    "DPSGD_METRICS_TOKEN",
)
#: A token that is drawn at random has 6 bits a character: 16 are 96 bits.
LEAST_TOKEN = 16


@dataclass(frozen=True, kw_only=True)
class Operation:
    """How a site is watched and steered.

    Attributes:
        log_format: One of LOG_FORMATS.
        admin_token: Makes who has it the operator; "": there is no operator's page.
        metrics_token: Opens ``/metrics`` from other machines; "" if nothing does.
    """

    log_format: str = "text"
    admin_token: str = ""
    metrics_token: str = ""

    @classmethod
    def from_values(cls, values: Mapping[str, str]) -> Self:
        """Read the variables; ConfigError names the one that is wrong."""
        return cls(
            log_format=one_of(
                "DPSGD_LOG_FORMAT",
                values.get("DPSGD_LOG_FORMAT", cls.log_format),
                LOG_FORMATS,
            ),
            admin_token=_token(values, "DPSGD_ADMIN_TOKEN"),
            metrics_token=_token(values, "DPSGD_METRICS_TOKEN"),
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


def _content(name: str, file: str) -> str:
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(
            name, f"{name} must be a file that can be read: {file}: {reason}."
        ) from None


def _token(values: Mapping[str, str], name: str) -> str:
    token = values.get(name, "")
    if token and (len(token) < LEAST_TOKEN or not token.isascii()):
        raise ConfigError(
            name,
            f"{name} must be at least {LEAST_TOKEN} ASCII characters drawn at random, "
            f"got {len(token)}. To make one: "
            'python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    return token


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
