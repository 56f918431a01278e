"""Limits of a site: per visitor, per network, and for the whole site.

The variable of a limit is ``DPSGD_QUOTA_`` and the name in ``Quotas``.  Limits without
a variable are constants, here and in ``runs.classes``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from dpsgd_explorer.errors import ConfigError

VARIABLE = "DPSGD_QUOTA_"
NO_LIMIT = "none"

#: Part of a shared queue that one visitor or one network can hold, and part that is
#: reserved for visitors without a queued run: a quarter each, so that three visitors
#: cannot lock out a fourth.
QUEUE_SHARE = 0.25

_CLASSES = (
    "Each class has 1,000 runs, 200 students and 120 days, and a visitor or a network "
    "creates at most 6 classes in 24 hours."
)
_SHARE = (
    "In the public profile one visitor or network holds at most a quarter of the queue "
    "(DPSGD_QUOTA_QUEUED_IN_ALL), also with its classes, and a quarter is reserved for "
    "visitors without a queued run."
)
#: Former variables; each with the limit that replaces it.
REPLACED = {
    "DPSGD_QUOTA_RUNS_IN_GROUP": "A group has at most 20 runs.",
    "DPSGD_QUOTA_NETWORK_QUEUED": _SHARE,
    "DPSGD_QUOTA_QUEUED_SHARE": _SHARE,
    "DPSGD_QUOTA_QUEUED_RESERVED": _SHARE,
    "DPSGD_QUOTA_CLASS_QUEUED": _SHARE,
    "DPSGD_QUOTA_CLASS_LAUNCHES": _CLASSES,
    "DPSGD_QUOTA_CLASS_LAUNCHES_USUAL": _CLASSES,
    "DPSGD_QUOTA_CLASS_LAUNCHES_EACH": _CLASSES,
    "DPSGD_QUOTA_CLASS_STUDENTS": _CLASSES,
    "DPSGD_QUOTA_CLASS_DAYS": _CLASSES,
    "DPSGD_QUOTA_CLASSES_A_DAY": _CLASSES,
    "DPSGD_QUOTA_NETWORK_CLASSES_A_DAY": _CLASSES,
}


def _quota(meaning: str, domain: str = "count", default: Any = None) -> Any:
    return field(default=default, metadata={"meaning": meaning, "domain": domain})


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The limits of a site; None means no limit.

    A network is all addresses with the same first 24 bits (IPv4) or 48 bits (IPv6).  A
    visitor who deletes the cookie counts as a new visitor of the network.

    Attributes:
        shares_queue: If True, ``QUEUE_SHARE`` holds.  The profile decides, no variable.
    """

    running: int | None = _quota("runs that train at a time, per visitor")
    queued: int | None = _quota("launches in the queue, per visitor; a group is one")
    launches_a_day: int | None = _quota("launches in 24 hours, per visitor")
    network_launches_a_day: int | None = _quota("launches in 24 hours, per network")
    exempt_networks: tuple[str, ...] = _quota(
        "networks without a limit, such as a classroom's: addresses with their prefix "
        "length, separated by commas",
        "networks",
        (),
    )
    queued_in_all: int = _quota("queued runs of all visitors together", "number", 1000)
    shares_queue: bool = False

    def changed(self, texts: Mapping[str, str]) -> Quotas:
        """Returns the quotas with some of them changed.

        Args:
            texts: {environment variable: new value as text}.

        Raises:
            ConfigError: names the first wrong variable.
        """
        known = {variable(quota.name): quota for quota in settable()}
        values: dict[str, Any] = {}
        for name, text in texts.items():
            if name in REPLACED:
                raise ConfigError(
                    name,
                    f"{name} must not be set: it is no longer a variable. "
                    f"{REPLACED[name]} Remove the variable.",
                )
            if name not in known:
                raise ConfigError(
                    name, f"{name} must be one of {', '.join(known)}. Remove it."
                )
            read = DOMAINS[known[name].metadata["domain"]]
            values[known[name].name] = read(name, text.strip())
        return replace(self, **values)


def settable() -> list[Field[Any]]:
    """Returns the quotas that a variable can set."""
    return [quota for quota in fields(Quotas) if quota.metadata]


def variable(name: str) -> str:
    """Returns the environment variable of a quota."""
    return VARIABLE + name.upper()


def _count(name: str, text: str) -> int | None:
    return None if text == NO_LIMIT else _number(name, text, f", or {NO_LIMIT}")


def _number(name: str, text: str, otherwise: str = "") -> int:
    if not (text.isdecimal() and text.isascii() and 0 < int(text) < 2**31):
        raise ConfigError(
            name, f"{name} must be a whole number above 0{otherwise}, got {text!r}."
        )
    return int(text)


def _networks(name: str, text: str) -> tuple[str, ...]:
    if text == NO_LIMIT:
        return ()
    try:
        return tuple(
            str(ipaddress.ip_network(network.strip()))
            for network in text.split(",")
            if network.strip()
        )
    except ValueError as error:
        raise ConfigError(
            name,
            f"{name} must list networks such as 192.0.2.0/24, 2001:db8::/48, got "
            f"{text!r} ({error}).",
        ) from None


DOMAINS = {
    "count": _count,
    "number": _number,
    "networks": _networks,
}
QUOTAS = {
    "local": Quotas(),
    "public": Quotas(
        running=1,
        queued=3,
        launches_a_day=20,
        network_launches_a_day=100,
        queued_in_all=200,
        shares_queue=True,
    ),
}
