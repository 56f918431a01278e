"""The classes of a site: made by a teacher, joined by a link, launched for by all.

Runs of a class count for the quota that its students share, and not for that of the
network: a room full of students has one address.  Each student has a share of it, and
visitors take turns in the queue as always.  A run stays its visitor's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    func,
    insert,
    select,
    true,
    update,
)

from dpsgd_explorer.errors import ConfigError, QuotaError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.identifiers import new_id
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.classes import membership
from dpsgd_explorer.runs.classes.plan import ClassPlan, checked_nickname
from dpsgd_explorer.runs.classes.records import TEACHER, Class, RosterRow
from dpsgd_explorer.runs.store import admission, groups, launching
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.labels import checked_name
from dpsgd_explorer.runs.store.records import Run, StoredEvent, not_found
from dpsgd_explorer.runs.store.schema import events, runs
from dpsgd_explorer.runs.store.site import rosters
from dpsgd_explorer.runs.store.site.class_tables import (
    class_members,
    class_runs,
    classes,
)

ID_BYTES = 9
DAY = 24 * 60 * 60


class Classes:
    """The classes in a database; safe to share between threads."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        *,
        quotas: Quotas,
        cost_limit: float,
    ) -> None:
        """Do nothing yet.

        Args:
            database: Where the runs are.
            clock: Gives unix seconds.
            quotas: Limits of classes, visitors, networks and the site.
            cost_limit: Multiply-adds that one run may need.
        """
        self._database, self._clock, self._quotas = database, clock, quotas
        self._limits: dict[str, Any] = {"quotas": quotas, "cost_limit": cost_limit}

    def make(self, plan: ClassPlan, *, visitor: str, network: str = "") -> Class:
        """Make a class; the visitor is its teacher.

        Args:
            plan: Its name and its quotas.
            visitor: Who makes it.
            network: Network of the request, see ``networks``; "" if no quota counts it.

        Raises:
            ConfigError: a value of the plan is outside its domain.
            QuotaError: the visitor or the network made too many today.
        """
        values = plan.checked(self._quotas)
        days = values.pop("days")
        class_id = new_id(ID_BYTES)
        with self._database.write() as connection:
            now = self._clock()
            rosters.drop_old(connection, now, None)
            self._check_makers(connection, visitor, network, now)
            connection.execute(
                insert(classes).values(
                    id=class_id,
                    maker=visitor,
                    network=network,
                    launched=0,
                    created_at=now,
                    ends_at=now + days * DAY,
                    links=1,
                    students=0,
                    version=1,
                    **values,
                )
            )
            membership.add(connection, class_id, visitor, TEACHER, "", now)
            return membership.read(connection, class_id, now)

    def find(self, class_id: str) -> Class:
        """Return a class to who has a link to it; ClassNotFoundError: there is none."""
        with self._database.read() as connection:
            return membership.read(connection, class_id, self._clock())

    def get(self, class_id: str, visitor: str) -> Class:
        """Return a class that a visitor is in; ClassNotFoundError otherwise."""
        with self._database.read() as connection:
            found = membership.own(connection, class_id, visitor, self._clock())
            return found.seen_by(visitor)

    def of(self, visitor: str) -> list[Class]:
        """Return the classes that a visitor is in, the newest first."""
        now = self._clock()
        query = (
            select(class_members.c.class_id)
            .join_from(class_members, classes, classes.c.id == class_members.c.class_id)
            .where(
                class_members.c.visitor == visitor,
                class_members.c.left_at.is_(None),
                classes.c.deleted_at.is_(None),
            )
            .order_by(classes.c.created_at.desc())
        )
        with self._database.read() as connection:
            ids = connection.scalars(query).all()
            found = [membership.read(connection, class_id, now) for class_id in ids]
            return [one.seen_by(visitor) for one in found]

    def join(self, class_id: str, visitor: str, nickname: str = "") -> Class:
        """Let a visitor with the link in; one who is in already may change the name.

        Raises:
            ClassNotFoundError: there is no such class, or a teacher removed this one.
            ClassOverError: it was closed, or its time is up.
            ConfigError: the nickname is none.
            QuotaError: it is full.
        """
        nickname = checked_nickname(nickname)
        with self._database.write() as connection:
            now = self._clock()
            found = membership.read(connection, class_id, now)
            member = found.member(visitor)
            if member is None or not member.is_teacher:
                membership.check_goes_on(found)
                membership.enrol_student(
                    connection, found, visitor, nickname, self._quotas
                )
            return membership.read(connection, class_id, now).seen_by(visitor)

    def teach(self, class_id: str, visitor: str) -> Class:
        """Make a visitor with the teacher's link a teacher of the class."""
        with self._database.write() as connection:
            now = self._clock()
            found = membership.read(connection, class_id, now)
            membership.enrol_teacher(connection, found, visitor)
            return membership.read(connection, class_id, now)

    def leave(self, class_id: str, visitor: str) -> None:
        """Take a student out of a class, with its runs; they stay the student's.

        Raises:
            ClassNotFoundError: this one is not in it.
            ConfigError: this one is its last teacher.
        """
        with self._database.write() as connection:
            found = membership.own(connection, class_id, visitor, self._clock())
            teachers = [one for one in found.members if one.is_teacher]
            if [one.visitor for one in teachers if one.left_at is None] == [visitor]:
                raise ConfigError(
                    "class_id",
                    "a class must have a teacher, and you are its last one: close the "
                    "class, or delete it.",
                )
            self._take_out(connection, found, visitor, removed=False)

    def remove_student(self, class_id: str, number: int, visitor: str) -> None:
        """Take a student out of a class for good, with its runs, as its teacher."""
        with self._database.write() as connection:
            found = membership.taught(connection, class_id, visitor, self._clock())
            for member in found.students:
                if member.number == number:
                    self._take_out(connection, found, member.visitor, removed=True)
                    return
            raise ConfigError(
                "number",
                f"number must be the number of a student of the class, got {number}. "
                "The page of the class lists them.",
            )

    def remove_run(self, class_id: str, run_id: str, visitor: str) -> None:
        """Take a run out of a class, as its teacher or as who launched it."""
        with self._database.write() as connection:
            found = membership.own(connection, class_id, visitor, self._clock())
            member = found.member(visitor)
            mine = select(class_runs.c.run_id).join(
                runs, runs.c.id == class_runs.c.run_id
            )
            query = mine.where(
                class_runs.c.class_id == class_id, class_runs.c.run_id == run_id
            )
            if member is None or not member.is_teacher:
                query = query.where(runs.c.visitor == visitor)
            if connection.scalar(query) is None:
                raise not_found(run_id)
            rosters.forget_runs(connection, [run_id])
            rosters.changed(connection, class_id)

    def close(self, class_id: str, visitor: str) -> Class:
        """End a class, as its teacher; its page stays for those who are in it."""
        return self._order(class_id, visitor, closed_at=self._clock())

    def renew_links(self, class_id: str, visitor: str) -> Class:
        """Let other links lead to a class, as its teacher; the former hold no more."""
        return self._order(class_id, visitor, links=classes.c.links + 1)

    def delete(self, class_id: str, visitor: str) -> None:
        """Delete a class with its roster, as its teacher; runs stay and go on."""
        with self._database.write(ends=True) as connection:
            now = self._clock()
            membership.taught(connection, class_id, visitor, now)
            rosters.delete_class(connection, class_id, now)

    def launch(
        self,
        config: RunConfig,
        *,
        class_id: str,
        visitor: str,
        network: str = "",
        name: str = "",
        group: str = "",
        parent: str = "",
    ) -> str:
        """Queue a run that counts for a class; return its id.

        The queue counts it for the network of the request too, but the launches of that
        network do not: a room full of students has one address.

        Raises:
            ClassNotFoundError: the visitor is not in such a class.
            ClassOverError: it was closed, or its time is up.
            ConfigError: as ``RunStore.create``.
            QuotaError: the quota of the class or the visitor's share of it is used
                up, or as ``RunStore.create``.
        """
        config.check_reachable()
        launch = admission.Launch(
            run_id=new_id(),
            visitor=visitor,
            network=network,
            group=checked_name("group", group),
            class_id=class_id,
        )
        with self._database.write() as connection:
            now = self._clock()
            found = membership.own(connection, class_id, visitor, now)
            membership.check_goes_on(found)
            _check_left(found, visitor)
            launching.queue_one(
                connection,
                config,
                launch,
                name=name,
                parent=parent,
                now=now,
                **self._limits,
            )
            _count_launch(connection, found, visitor, launch.run_id)
        return launch.run_id

    def roster(
        self, class_id: str, limit: int | None = None, *, visitor: str | None = None
    ) -> list[RosterRow]:
        """Return the runs of a class, newest first, each with its member.

        Args:
            class_id: The class.
            limit: Largest number of runs; None: all.
            visitor: A member, who gets the runs that it may see; None: all runs.
        """
        query = (
            select(runs)
            .join(class_runs, class_runs.c.run_id == runs.c.id)
            .where(class_runs.c.class_id == class_id, runs.c.deleted_at.is_(None))
            .order_by(runs.c.created_at.desc(), runs.c.id)
            .limit(limit)
        )
        with self._database.read() as connection:
            found = membership.read(connection, class_id, self._clock())
            query = query.where(_seen_by(found, visitor))
            known = {one.visitor: one for one in found.members}
            rows = connection.execute(query).mappings().all()
        return [
            RosterRow(run, known.get(run.visitor)) for run in map(Run.from_row, rows)
        ]

    def events(
        self, class_id: str, after: int, limit: int, *, visitor: str | None = None
    ) -> list[StoredEvent]:
        """Return the events of a class's runs behind an event, oldest first.

        Args:
            class_id: The class.
            after: Number of an event.
            limit: Largest number of events.
            visitor: A member, who gets those of the runs that it may see; None: all.
        """
        query = (
            select(events)
            .join_from(events, class_runs, events.c.run_id == class_runs.c.run_id)
            .join(runs, runs.c.id == events.c.run_id)
            .where(
                class_runs.c.class_id == class_id,
                runs.c.deleted_at.is_(None),
                events.c.id > after,
                events.c.kind.in_(groups.SHOWN),
            )
            .order_by(events.c.id)
            .limit(limit)
        )
        with self._database.read() as connection:
            found = membership.read(connection, class_id, self._clock())
            query = query.where(_seen_by(found, visitor))
            return [StoredEvent(*row) for row in connection.execute(query)]

    def _order(self, class_id: str, visitor: str, **values: Any) -> Class:
        with self._database.write() as connection:
            now = self._clock()
            membership.taught(connection, class_id, visitor, now)
            changed = update(classes).where(classes.c.id == class_id)
            connection.execute(changed.values(values))
            rosters.changed(connection, class_id)
            return membership.read(connection, class_id, now)

    def _take_out(
        self, connection: Connection, found: Class, visitor: str, *, removed: bool
    ) -> None:
        mine = (
            class_members.c.class_id == found.id,
            class_members.c.visitor == visitor,
        )
        values = {"left_at": found.now, "removed": removed, "nickname": ""}
        connection.execute(update(class_members).where(*mine).values(values))
        own = select(runs.c.id).where(runs.c.visitor == visitor)
        connection.execute(
            delete(class_runs).where(
                class_runs.c.class_id == found.id, class_runs.c.run_id.in_(own)
            )
        )
        rosters.changed(connection, found.id)

    def _check_makers(
        self, connection: Connection, visitor: str, network: str, now: float
    ) -> None:
        quotas = self._quotas
        is_networks = classes.c.network == network
        for noun, is_its, most in (
            ("You", classes.c.maker == visitor, quotas.classes_a_day),
            (f"Your network {network}", is_networks, quotas.network_classes_a_day),
        ):
            if most is None or (is_its is is_networks and not network):
                continue
            if _made_since(connection, is_its, now - DAY) >= most:
                raise QuotaError(
                    f"{noun} already made {most} classes in the last 24 hours, the "
                    "maximum. Use one of them, or try again tomorrow.",
                    DAY,
                )


def _made_since(
    connection: Connection, which: ColumnElement[bool], since: float
) -> int:
    query = select(func.count()).where(which, classes.c.created_at >= since)
    return connection.scalar(query.select_from(classes)) or 0


def _seen_by(found: Class, visitor: str | None) -> ColumnElement[bool]:
    """Return the condition on runs of a class that a member may see."""
    seen = found if visitor is None else found.seen_by(visitor)
    if not seen.is_restricted:
        return true()
    return runs.c.visitor.in_([one.visitor for one in seen.members])


def _check_left(found: Class, visitor: str) -> None:
    """Raise QuotaError if the class, or this one in it, may launch no more."""
    member = found.member(visitor)
    assert member is not None
    wait = max(1, round(found.ends_at - found.now))
    if found.launched >= found.launches:
        raise QuotaError(
            f"The class “{found.name}” already launched {found.launches} runs, the "
            "maximum. Launch without the class, or ask your teacher for another class.",
            wait,
        )
    if not found.left_to(member):
        raise QuotaError(
            f"You already launched {found.launches_each} runs for “{found.name}”, the "
            "maximum for one student. Launch without the class.",
            wait,
        )


def _count_launch(
    connection: Connection, found: Class, visitor: str, run_id: str
) -> None:
    connection.execute(insert(class_runs).values(run_id=run_id, class_id=found.id))
    more = update(classes).where(classes.c.id == found.id)
    connection.execute(more.values(launched=classes.c.launched + 1))
    mine = (class_members.c.class_id == found.id, class_members.c.visitor == visitor)
    own = update(class_members).where(*mine)
    connection.execute(own.values(launched=class_members.c.launched + 1))
    rosters.changed(connection, found.id)
