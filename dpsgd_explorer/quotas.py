"""Limits of a site: per visitor, per network, and for the whole site.

The variable of a limit is ``DPSGD_QUOTA_`` and the name in ``Quotas``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from dpsgd_explorer.errors import ConfigError

VARIABLE = "DPSGD_QUOTA_"
NO_LIMIT = "none"

_OF_CLASSES = (
    "Each class has 1,000 runs, 200 students and 120 days: remove the variable."
)
_QUEUE_OF_CLASSES = (
    "Runs of a class count for the share of the queue of its creator: remove the "
    "variable."
)
_NEW_CLASSES = (
    "A visitor and a network create at most 6 classes in 24 hours if "
    "DPSGD_QUOTA_LAUNCHES_A_DAY sets a limit: remove the variable."
)
#: Former variables, each with its replacement.
REPLACED = {
    "DPSGD_QUOTA_CLASS_LAUNCHES": _OF_CLASSES,
    "DPSGD_QUOTA_CLASS_LAUNCHES_USUAL": _OF_CLASSES,
    "DPSGD_QUOTA_CLASS_LAUNCHES_EACH": _OF_CLASSES,
    "DPSGD_QUOTA_CLASS_STUDENTS": _OF_CLASSES,
    "DPSGD_QUOTA_CLASS_DAYS": _OF_CLASSES,
    "DPSGD_QUOTA_CLASS_QUEUED": _QUEUE_OF_CLASSES,
    "DPSGD_QUOTA_CLASSES_A_DAY": _NEW_CLASSES,
    "DPSGD_QUOTA_NETWORK_CLASSES_A_DAY": _NEW_CLASSES,
}


def _quota(meaning: str, domain: str = "count", default: Any = None) -> Any:
    return field(default=default, metadata={"meaning": meaning, "domain": domain})


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The limits of a site; None means no limit.

    A network is all addresses with the same first 24 bits (IPv4) or 48 bits (IPv6).  A
    visitor who deletes the cookie counts as a new visitor of the network.
    """

    running: int | None = _quota("runs of a visitor that are trained at a time")
    queued: int | None = _quota("launches of a visitor that wait; a group is one")
    launches_a_day: int | None = _quota("launches of a visitor in 24 hours")
    runs_in_group: int | None = _quota("runs that one launch may consist of")
    network_queued: int | None = _quota("launches of a network that wait")
    network_launches_a_day: int | None = _quota("launches of a network in 24 hours")
    queued_in_all: int = _quota("queued runs of all visitors together", "number", 1000)
    queued_share: float = _quota(
        "share of these that one visitor or one network may have queued or paused, "
        "with the classes made there",
        "share",
        1.0,
    )
    queued_reserved: float = _quota(
        "share of these kept for visitors who, like their network, have none queued",
        "reserve",
        0.0,
    )
    exempt_networks: tuple[str, ...] = _quota(
        "networks that are not counted as such, as a classroom's: addresses with their "
        "prefix length, separated by commas",
        "networks",
        (),
    )

    def changed(self, texts: Mapping[str, str]) -> Quotas:
        """Returns the quotas with some of them changed.

        Args:
            texts: {environment variable: new value as text}.

        Raises:
            ConfigError: names the first wrong variable.
        """
        known = {variable(quota.name): quota for quota in fields(self)}
        values: dict[str, Any] = {}
        for name, text in texts.items():
            if name in REPLACED:
                raise ConfigError(name, f"{name} must not be set. {REPLACED[name]}")
            if name not in known:
                raise ConfigError(name, f"{name} is no quota: {', '.join(known)} are.")
            read = DOMAINS[known[name].metadata["domain"]]
            values[known[name].name] = read(name, text.strip())
        return replace(self, **values)


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


def _share(name: str, text: str) -> float:
    share = _reserve(name, text)
    if not share:
        raise ConfigError(
            name, f"{name} must be above 0 and at most 1, such as 0.25, got {text!r}."
        )
    return share


def _reserve(name: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ConfigError(
            name, f"{name} must be from 0 to 1, such as 0.25, got {text!r}."
        )
    return share


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
    "share": _share,
    "reserve": _reserve,
    "networks": _networks,
}
QUOTAS = {
    "local": Quotas(),
    "public": Quotas(
        running=1,
        queued=3,
        launches_a_day=20,
        runs_in_group=20,
        network_queued=12,
        network_launches_a_day=100,
        queued_in_all=200,
        queued_share=0.25,
        queued_reserved=0.25,
    ),
}
