"""Usage of a site by visitor, as its quotas count it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, case, distinct, func, select

from dpsgd_explorer.runs.store.admission import DAY
from dpsgd_explorer.runs.store.schema import QUEUED, RUNNING, launches, runs

MAX_VISITORS = 50


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Usage of one visitor.

    Attributes:
        launches: Number of launches in the last 24 hours; a group of runs counts once.
        running: Number of running runs.
        queued: Number of queued runs.
    """

    visitor: str
    launches: int
    running: int
    queued: int


def usage(connection: Connection, now: float) -> list[Usage]:
    """Returns the visitors with the most launches in 24 hours, busiest first."""
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
        .limit(MAX_VISITORS)
    )
    return [Usage(**row) for row in connection.execute(query).mappings()]
