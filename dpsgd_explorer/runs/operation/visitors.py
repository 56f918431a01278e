"""What visitors take of a site, as its quotas count it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, case, distinct, func, select

from dpsgd_explorer.runs.store.admission import DAY
from dpsgd_explorer.runs.store.schema import QUEUED, RUNNING, launches, runs

MOST_VISITORS = 50


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one visitor takes.

    Attributes:
        launches: In the last 24 hours; a group of runs is one.
        running: Runs that train now.
        queued: Runs that wait now.
    """

    visitor: str
    launches: int
    running: int
    queued: int


def usage(connection: Connection, now: float) -> list[Usage]:
    """Return the visitors that launched most in 24 hours, the busiest first."""
    number = func.count(distinct(launches.c.launch))
    query = (
        select(
            launches.c.visitor,
            number.label("launches"),
            func.count(case((runs.c.state == RUNNING, 1))).label("running"),
            func.count(case((runs.c.state == QUEUED, 1))).label("queued"),
        )
        .outerjoin(runs, runs.c.id == launches.c.run_id)
        .where(launches.c.at >= now - DAY)
        .group_by(launches.c.visitor)
        .order_by(number.desc(), launches.c.visitor)
        .limit(MOST_VISITORS)
    )
    return [Usage(**row) for row in connection.execute(query).mappings()]
