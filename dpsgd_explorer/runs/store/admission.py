"""Admission of runs: cost limit and quotas of visitors, networks and the site.

A ``group`` of runs counts as one launch, and the whole group may cost no more than one
run.  Launches have a table separate from the runs, so deleting a run does not free
quota.  A visitor who deletes the cookie counts as new, but the network's quota remains.

The queue is shared by runs, not by launches.  A run counts for the visitor and the
network that launched it.  A run of a class also counts for the visitor and the network
that created the class.  In a shared queue, no visitor and no network may hold more than
its share.  A paused run counts as queued, because it returns to the queue without
another check.
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
    or_,
    select,
)

from dpsgd_explorer.errors import ConfigError, QuotaError
from dpsgd_explorer.experiments.config import RunConfig, check_cost
from dpsgd_explorer.experiments.groups import MOST_RUNS
from dpsgd_explorer.quotas import QUEUE_SHARE, Quotas
from dpsgd_explorer.runs.store import fair_queue
from dpsgd_explorer.runs.store.schema import PAUSED, QUEUED, classes, launches, runs

DAY = 24 * 60 * 60
# Value of Retry-After: typical time until a run ends or a place becomes free.
RETRY_SECONDS = 30
# The visitor is part of the key, because two visitors may use one name for a launch.
LAUNCH = launches.c.visitor + " " + launches.c.launch


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Request for a run.

    Attributes:
        run_id: Id of the run.
        visitor: Name of the visitor, from the cookie.
        network: Network of the request, see ``networks``; "" if no quota counts it.
        group: The visitor's name for a group of runs; "" for a single run.
        class_id: Class whose quota counts the run, instead of the daily launches of
            the visitor and the network; "" without a class.
    """

    run_id: str
    visitor: str
    network: str
    group: str
    class_id: str = ""

    @property
    def name(self) -> str:
        """Name that all runs of this launch share."""
        return self.group or self.run_id


@dataclass(frozen=True)
class Origin:
    """A visitor, a network or a class with a limit.

    Attributes:
        noun: Subject of the error message.
        is_its: Condition on the launches that count for the origin.
        have: Verb of the error message, "have" or "has".
    """

    noun: str
    is_its: ColumnElement[bool]
    have: str = "has"


def admit(
    connection: Connection,
    config: RunConfig,
    launch: Launch,
    *,
    quotas: Quotas,
    cost_limit: float,
    now: float,
) -> None:
    """Counts a launch, or rejects it; called in the transaction that queues the run.

    Raises:
        ConfigError: The run, or the group with this run, costs too much.
        QuotaError: A limit of the visitor, the network, the class or the site is
            reached.
    """
    check_cost(config, cost_limit)
    _check_site(connection, launch, quotas)
    number, spent = connection.execute(
        select(func.count(), func.coalesce(func.sum(launches.c.cost), 0.0)).where(
            launches.c.visitor == launch.visitor, launches.c.launch == launch.name
        )
    ).one()
    if number:
        _check_group(launch.group, number, spent + config.cost, cost_limit)
    if quotas.shares_queue:
        for origin in (*_origins(launch), *_makers(connection, launch)):
            _check_share(connection, origin, quotas.queued_in_all)
    _check_queued(connection, launch, quotas.queued)
    if not number and not launch.class_id:
        _check_day(connection, _visitor(launch), quotas.launches_a_day, now)
        if launch.network:
            most = quotas.network_launches_a_day
            _check_day(connection, _network(launch), most, now)
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
    """Raises ConfigError if the runs of a group together cost more than ``bound``."""
    price = sum(config.cost for config in configs)
    if price > bound:
        field = configs[0].length_setting
        raise ConfigError(
            "variations",
            f"variations: {len(configs)} runs may need at most {bound:.2g} "
            f"multiply-adds together, got {price:.2g}. Use fewer runs, fewer {field}, "
            f"{configs[0].TO_COST_LESS}.",
        )


def launches_since(connection: Connection, visitor: str, timestamp: float) -> int:
    """Returns the number of a visitor's launches; a group counts once."""
    query = select(func.count(launches.c.launch.distinct())).where(
        launches.c.visitor == visitor, launches.c.at >= timestamp
    )
    return connection.scalar(query) or 0


def forget_old(connection: Connection, now: float) -> None:
    """Deletes launches older than a day, unless their runs are still queued."""
    waiting = select(runs.c.id).where(runs.c.state == QUEUED)
    connection.execute(
        delete(launches).where(
            launches.c.at < now - DAY, launches.c.run_id.not_in(waiting)
        )
    )


def _visitor(launch: Launch) -> Origin:
    return Origin("You", launches.c.visitor == launch.visitor, "have")


def _network(launch: Launch) -> Origin:
    is_its = launches.c.network == launch.network
    return Origin(f"Your network {launch.network}", is_its)


def _origins(launch: Launch) -> Iterator[Origin]:
    """Yields the visitor and the network of a launch, with the classes of each."""
    yield Origin("You", _of_visitor(launch.visitor), "have")
    if launch.network:
        yield Origin(f"Your network {launch.network}", _of_network(launch.network))


def _makers(connection: Connection, launch: Launch) -> Iterator[Origin]:
    """Yields the visitor and the network that created the class of a launch."""
    query = select(classes.c.maker, classes.c.network)
    if not launch.class_id:
        return
    maker, network = connection.execute(
        query.where(classes.c.id == launch.class_id)
    ).one()
    yield Origin("This class, with its teacher,", _of_visitor(maker))
    if network:
        noun = "This class, with the network where it was created,"
        yield Origin(noun, _of_network(network))


def _of_visitor(visitor: str) -> ColumnElement[bool]:
    created = select(classes.c.id).where(classes.c.maker == visitor)
    return or_(launches.c.visitor == visitor, launches.c.class_id.in_(created))


def _of_network(network: str) -> ColumnElement[bool]:
    created = select(classes.c.id).where(classes.c.network == network)
    return or_(launches.c.network == network, launches.c.class_id.in_(created))


def _check_site(connection: Connection, launch: Launch, quotas: Quotas) -> None:
    """Raises QuotaError if the queue is full.

    The last places are reserved for visitors without a queued run.
    """
    number = select(func.count()).select_from(runs).where(runs.c.state == QUEUED)
    queued, most = connection.scalar(number) or 0, quotas.queued_in_all
    if queued >= most:
        raise QuotaError(
            f"The queue of this site already has {most} runs, the maximum. "
            "Try again when some have started.",
            RETRY_SECONDS,
        )
    reserved = math.floor(QUEUE_SHARE * most)
    if not quotas.shares_queue or queued < most - reserved:
        return
    for origin in _origins(launch):
        if _count_waiting(connection, origin.is_its):
            raise QuotaError(
                f"{origin.noun} already {origin.have} runs in the queue, and the last "
                f"{reserved} of its {most} places are for visitors without one. Try "
                "again when some runs have started.",
                RETRY_SECONDS,
            )


def _check_group(group: str, number: int, price: float, cost_limit: float) -> None:
    if price > cost_limit:
        raise ConfigError(
            "group",
            f"group: its runs may need at most {cost_limit:.2g} multiply-adds "
            f"together, got {price:.2g} for {group!r}. Start another group, or use "
            "smaller runs.",
        )
    if number >= MOST_RUNS:
        raise QuotaError(
            f"Group {group!r} already has {MOST_RUNS} runs, the maximum. "
            "Start a new group.",
            RETRY_SECONDS,
        )


def _check_share(connection: Connection, origin: Origin, places: int) -> None:
    """Raises QuotaError if an origin already holds its share of the queue."""
    most = max(1, math.floor(QUEUE_SHARE * places))
    if _count_waiting(connection, origin.is_its) >= most:
        raise QuotaError(
            f"{origin.noun} already {origin.have} {most} runs queued or paused, the "
            "maximum. Stop some, or wait for some to start.",
            RETRY_SECONDS,
        )


def _count_waiting(connection: Connection, is_its: ColumnElement[bool]) -> int:
    """Returns the number of queued and paused runs of an origin."""
    query = (
        select(func.count())
        .join_from(launches, runs, runs.c.id == launches.c.run_id)
        .where(runs.c.state.in_((QUEUED, PAUSED)), is_its)
    )
    return connection.scalar(query) or 0


def _check_queued(connection: Connection, launch: Launch, most: int | None) -> None:
    """Raises QuotaError if the visitor already has the maximum of queued launches."""
    if most is None:
        return
    query = (
        select(func.count(distinct(launches.c.launch)))
        .join_from(launches, runs, runs.c.id == launches.c.run_id)
        .where(
            runs.c.state == QUEUED,
            launches.c.visitor == launch.visitor,
            launches.c.launch != launch.name,
        )
    )
    if (connection.scalar(query) or 0) >= most:
        raise QuotaError(
            f"You already have {most} launches in the queue, the maximum. Stop one, or "
            "wait for one to start.",
            RETRY_SECONDS,
        )


def _check_day(
    connection: Connection, origin: Origin, most: int | None, now: float
) -> None:
    """Raises QuotaError if an origin has reached its daily number of launches."""
    if most is None:
        return
    firsts = (
        select(func.min(launches.c.at).label("at"))
        .where(origin.is_its, launches.c.class_id == "", launches.c.at >= now - DAY)
        .group_by(LAUNCH)
        .order_by(func.min(launches.c.at).desc())
    )
    # Once this launch is older than a day, one more is admitted.
    blocking = connection.scalar(firsts.offset(most - 1).limit(1))
    if blocking is not None:
        wait = max(1, min(DAY, math.ceil(blocking + DAY - now)))
        raise QuotaError(
            f"{origin.noun} already {origin.have} {most} launches in the last 24 "
            f"hours, the maximum. Try again in {math.ceil(wait / 60)} minutes.",
            wait,
        )
