"""Which runs are let in: what one may cost, and what a visitor may ask for.

A ``group`` of runs counts as one launch, and may cost no more than one run.  Launches
are remembered apart from the runs, so deleting a run gives no new one.
"""

from __future__ import annotations

import math

from sqlalchemy import Connection, delete, func, insert, select

from dpsgd_explorer.errors import ConfigError, QuotaError
from dpsgd_explorer.runs.schema import QUEUED, launches, runs
from dpsgd_explorer.settings import Quotas
from dpsgd_explorer.training.cost import check_cost
from dpsgd_explorer.training.run_config import RunConfig

DAY = 24 * 60 * 60
# A run ends or a place is freed in about this time; asking earlier is of no use.
RETRY_SECONDS = 30


def admit(
    connection: Connection,
    config: RunConfig,
    *,
    run_id: str,
    visitor: str,
    group: str,
    quotas: Quotas,
    cost_limit: float,
    now: float,
) -> None:
    """Count the launch, or refuse it; call inside the transaction that queues the run.

    Raises:
        ConfigError: the run, or its group with it, would cost too much.
        QuotaError: the visitor or the site has too much queued or launched.
    """
    launch, price = group or run_id, config.cost
    check_cost(config, cost_limit)
    _check_queue(connection, visitor, launch, quotas)
    connection.execute(delete(launches).where(launches.c.at < now - DAY))
    spent = connection.scalar(
        select(func.coalesce(func.sum(launches.c.cost), 0.0)).where(
            launches.c.visitor == visitor, launches.c.launch == launch
        )
    )
    if spent:
        _check_group(group, spent + price, cost_limit)
    else:
        _check_day(connection, visitor, quotas, now)
    connection.execute(
        insert(launches).values(
            run_id=run_id, visitor=visitor, launch=launch, cost=price, at=now
        )
    )


def launches_since(connection: Connection, visitor: str, timestamp: float) -> int:
    """Return how many launches a visitor made; a group is one."""
    query = select(func.count(launches.c.launch.distinct())).where(
        launches.c.visitor == visitor, launches.c.at >= timestamp
    )
    return connection.scalar(query) or 0


def _check_group(group: str, price: float, limit: float) -> None:
    if price > limit:
        raise ConfigError(
            "group",
            f"group: its runs may need at most {limit:.2g} multiply-adds together, got "
            f"{price:.2g} for {group!r}. Start another group, or take smaller runs.",
        )


def _check_queue(
    connection: Connection, visitor: str, launch: str, quotas: Quotas
) -> None:
    queued = select(func.count()).select_from(runs).where(runs.c.state == QUEUED)
    if (connection.scalar(queued) or 0) >= quotas.queued_in_all:
        raise QuotaError(
            f"{quotas.queued_in_all} runs are queued on this site, its limit; "
            "try again when some have ended.",
            RETRY_SECONDS,
        )
    if quotas.queued is None:
        return
    others = (
        select(func.count(launches.c.launch.distinct()))
        .join(runs, runs.c.id == launches.c.run_id)
        .where(
            runs.c.visitor == visitor,
            runs.c.state == QUEUED,
            launches.c.launch != launch,
        )
    )
    if (connection.scalar(others) or 0) >= quotas.queued:
        raise QuotaError(
            f"a visitor may have {quotas.queued} launches queued, and you have; "
            "stop one or wait until one has started.",
            RETRY_SECONDS,
        )


def _check_day(
    connection: Connection, visitor: str, quotas: Quotas, now: float
) -> None:
    if quotas.launches_a_day is None:
        return
    firsts = (
        select(func.min(launches.c.at).label("at"))
        .where(launches.c.visitor == visitor)
        .group_by(launches.c.launch)
        .order_by(func.min(launches.c.at).desc())
    )
    # The launch that has to leave the window before there is room for one more.
    blocking = connection.scalar(firsts.offset(quotas.launches_a_day - 1).limit(1))
    if blocking is not None:
        raise QuotaError(
            f"a visitor may launch {quotas.launches_a_day} runs in 24 hours, "
            "and you have; try again later.",
            math.ceil(blocking + DAY - now),
        )
