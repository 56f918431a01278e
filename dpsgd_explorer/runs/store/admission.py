"""Admission of runs: the cost of one, the quotas of visitors, networks and the site.

A ``group`` of runs counts as one launch, and may cost no more than one run.  Launches
are remembered apart from the runs, so deleting a run gives no new one.  A visitor who
drops the cookie is a new one, but comes from the same network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    distinct,
    func,
    insert,
    select,
)

from dpsgd_explorer.errors import ConfigError, QuotaError
from dpsgd_explorer.experiments.config import RunConfig, check_cost
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store import fair_queue
from dpsgd_explorer.runs.store.schema import QUEUED, launches, runs

DAY = 24 * 60 * 60
# Typical time until a run ends or a place becomes free.
RETRY_SECONDS = 30
# Two visitors may use the same name for a launch.
LAUNCH = launches.c.visitor + " " + launches.c.launch


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Who asks for a run.

    Attributes:
        visitor: The name in the cookie.
        network: Network of the request, see ``networks``; "" if no quota counts it.
        group: What the visitor calls this run and others; "" for a run alone.
        class_id: The class whose quota counts it, in place of the network's and of
            the visitor's in a day; "" for none.
    """

    run_id: str
    visitor: str
    network: str
    group: str
    class_id: str = ""

    @property
    def name(self) -> str:
        """The name that all runs of this launch share."""
        return self.group or self.run_id


@dataclass(frozen=True)
class Asker:
    """Whom launches are counted for, and what that one may do."""

    noun: str
    is_its: ColumnElement[bool]
    queued: int | None
    launches_a_day: int | None = None
    has_share: bool = True


def admit(
    connection: Connection,
    config: RunConfig,
    launch: Launch,
    *,
    quotas: Quotas,
    cost_limit: float,
    now: float,
) -> None:
    """Count the launch, or refuse it; call inside the transaction that queues the run.

    Raises:
        ConfigError: the run, or its group with it, would cost too much.
        QuotaError: visitor, network or site has too much queued or launched.
    """
    check_cost(config, cost_limit)
    _forget_old(connection, now)
    _check_site(connection, quotas)
    mine = (launches.c.visitor == launch.visitor, launches.c.launch == launch.name)
    number, spent = connection.execute(
        select(func.count(), func.coalesce(func.sum(launches.c.cost), 0.0)).where(*mine)
    ).one()
    if number:
        _check_group(launch.group, number, spent + config.cost, quotas, cost_limit)
    for asker in _askers(launch, quotas):
        if asker.has_share:
            _check_share(connection, asker, quotas)
        _check_queued(connection, asker, launch)
        if not number:
            _check_day(connection, asker, now)
    connection.execute(
        insert(launches).values(
            run_id=launch.run_id,
            visitor=launch.visitor,
            network=launch.network,
            launch=launch.name,
            class_id=launch.class_id,
            cost=config.cost,
            at=now,
            joined=fair_queue.starts(connection),
        )
    )


def check_cost_together(configs: Sequence[RunConfig], bound: float) -> None:
    """Raise ConfigError if the runs of a group cost more together than one may."""
    price = sum(config.cost for config in configs)
    if price > bound:
        field = configs[0].length_setting
        raise ConfigError(
            "variations",
            f"variations: {len(configs)} runs may need at most {bound:.2g} "
            f"multiply-adds together, got {price:.2g}. Take fewer runs, fewer {field}, "
            f"{configs[0].TO_COST_LESS}.",
        )


def launches_since(connection: Connection, visitor: str, timestamp: float) -> int:
    """Return how many launches a visitor made; a group is one."""
    query = select(func.count(launches.c.launch.distinct())).where(
        launches.c.visitor == visitor, launches.c.at >= timestamp
    )
    return connection.scalar(query) or 0


def _forget_old(connection: Connection, now: float) -> None:
    """Forget the launches of earlier days, but for those whose runs still wait."""
    waiting = select(runs.c.id).where(runs.c.state == QUEUED)
    connection.execute(
        delete(launches).where(
            launches.c.at < now - DAY, launches.c.run_id.not_in(waiting)
        )
    )


def _askers(launch: Launch, quotas: Quotas) -> Iterator[Asker]:
    is_visitors = launches.c.visitor == launch.visitor
    if launch.class_id:
        yield Asker("a visitor", is_visitors, quotas.queued)
        is_its = launches.c.class_id == launch.class_id
        yield Asker("a class", is_its, quotas.class_queued, has_share=False)
        return
    yield Asker("a visitor", is_visitors, quotas.queued, quotas.launches_a_day)
    if launch.network:
        yield Asker(
            f"the network {launch.network}",
            launches.c.network == launch.network,
            quotas.network_queued,
            quotas.network_launches_a_day,
        )


def _check_site(connection: Connection, quotas: Quotas) -> None:
    queued = select(func.count()).select_from(runs).where(runs.c.state == QUEUED)
    if (connection.scalar(queued) or 0) >= quotas.queued_in_all:
        raise QuotaError(
            f"{quotas.queued_in_all} runs are queued on this site, its limit; "
            "try again when some have ended.",
            RETRY_SECONDS,
        )


def _check_group(
    group: str, number: int, price: float, quotas: Quotas, cost_limit: float
) -> None:
    if price > cost_limit:
        raise ConfigError(
            "group",
            f"group: its runs may need at most {cost_limit:.2g} multiply-adds together,"
            f" got {price:.2g} for {group!r}. Start another group, or take smaller "
            "runs.",
        )
    if quotas.runs_in_group is not None and number >= quotas.runs_in_group:
        raise QuotaError(
            f"a group may have {quotas.runs_in_group} runs, and {group!r} has; start "
            "another group.",
            RETRY_SECONDS,
        )


def _check_share(connection: Connection, asker: Asker, quotas: Quotas) -> None:
    """Raise QuotaError if one asker has its share of the queue."""
    most = max(1, math.floor(quotas.queued_share * quotas.queued_in_all))
    if _count_queued(connection, asker.is_its) >= most:
        raise QuotaError(
            f"{asker.noun} may have {most} of the site's {quotas.queued_in_all} places "
            "in the queue, and has; try again when some runs have ended.",
            RETRY_SECONDS,
        )


def _check_queued(connection: Connection, asker: Asker, launch: Launch) -> None:
    if asker.queued is None:
        return
    is_other = LAUNCH.is_distinct_from(f"{launch.visitor} {launch.name}")
    others = _count_queued(connection, asker.is_its & is_other, distinct(LAUNCH))
    if others >= asker.queued:
        raise QuotaError(
            f"{asker.noun} may have {asker.queued} launches queued, and has; "
            "stop one or wait until one has started.",
            RETRY_SECONDS,
        )


def _count_queued(
    connection: Connection,
    which: ColumnElement[bool],
    what: ColumnElement[str] = launches.c.run_id,
) -> int:
    """Return how many runs of some launches are queued, or what else is counted."""
    query = (
        select(func.count(what))
        .join_from(launches, runs, runs.c.id == launches.c.run_id)
        .where(runs.c.state == QUEUED, which)
    )
    return connection.scalar(query) or 0


def _check_day(connection: Connection, asker: Asker, now: float) -> None:
    if asker.launches_a_day is None:
        return
    firsts = (
        select(func.min(launches.c.at).label("at"))
        .where(asker.is_its, launches.c.class_id == "", launches.c.at >= now - DAY)
        .group_by(LAUNCH)
        .order_by(func.min(launches.c.at).desc())
    )
    # The launch that has to leave the window before there is room for one more.
    blocking = connection.scalar(firsts.offset(asker.launches_a_day - 1).limit(1))
    if blocking is not None:
        raise QuotaError(
            f"{asker.noun} may launch {asker.launches_a_day} runs in 24 hours, "
            "and has; try again later.",
            max(1, min(DAY, math.ceil(blocking + DAY - now))),
        )
