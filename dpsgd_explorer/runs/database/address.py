"""Addresses of databases and queues: their kinds, and display without passwords."""

from __future__ import annotations

import re

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

SQLITE, POSTGRESQL, REDIS = "sqlite", "postgresql", "redis"
DRIVER = "postgresql+psycopg"
# Kind of database or queue by URL scheme.
KINDS = {
    "sqlite": SQLITE,
    "postgresql": POSTGRESQL,
    DRIVER: POSTGRESQL,
    "redis": REDIS,
    "rediss": REDIS,
}
PASSWORD = re.compile(r"(?<=:)[^:@/]*(?=@)")
#: Arguments of an address that may be displayed; any other could be a password.
SHOWN_ARGUMENTS = frozenset(
    {"host", "port", "dbname", "user", "sslmode", "application_name"}
    | {"connect_timeout", "db"}
)


def kind_of(url: str) -> str:
    """Returns the kind of an address; "" if it is not supported."""
    return KINDS.get(url.partition("://")[0], "") if "://" in url else ""


def shown(url: str) -> str:
    """Returns an address without its password, for messages."""
    try:
        parsed = make_url(url)
        hidden = dict.fromkeys(parsed.query.keys() - SHOWN_ARGUMENTS, "***")
        return parsed.update_query_dict(hidden).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return PASSWORD.sub("***", url.partition("?")[0])


def postgresql_url(url: str) -> URL:
    """Returns a PostgreSQL address with the driver psycopg."""
    return make_url(url).set(drivername=DRIVER)
