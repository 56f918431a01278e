"""Classes: created by a teacher and joined through a link.

Runs launched for a class count for the quota of the class, which its students share.
They do not count for the launch quota of the network, because all students in a room
have one address.  Each student can use part of the class quota.  In the queue, visitors
take turns as usual, and each run belongs to the visitor who launched it.
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
    """Classes in a database; safe to share between threads.

    Args:
        database: Database of the runs.
        clock: Returns unix seconds.
        quotas: Limits of classes, visitors, networks and the site.
        cost_limit: Multiply-adds that one run may need.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        *,
        quotas: Quotas,
        cost_limit: float,
    ) -> None:
        self._database, self._clock, self._quotas = database, clock, quotas
        self._limits: dict[str, Any] = {"quotas": quotas, "cost_limit": cost_limit}

    def make(self, plan: ClassPlan, *, visitor: str, network: str = "") -> Class:
        """Creates a class with the visitor as its teacher.

        Args:
            plan: Name and quotas of the class.
            visitor: Creator of the class.
            network: Network of the request, see ``networks``; "" if no quota counts it.

        Raises:
            ConfigError: A value of the plan is outside its domain.
            QuotaError: The visitor or the network has created too many classes in the
                last 24 hours.
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
        """Returns a class for a visitor with a link to it.

        Raises:
            ClassNotFoundError: The class does not exist.
        """
        with self._database.read() as connection:
            return membership.read(connection, class_id, self._clock())

    def get(self, class_id: str, visitor: str) -> Class:
        """Returns a class as one of its members may see it.

        Raises:
            ClassNotFoundError: The visitor is not a member of such a class.
        """
        with self._database.read() as connection:
            class_ = membership.read_as_member(
                connection, class_id, visitor, self._clock()
            )
            return class_.seen_by(visitor)

    def of(self, visitor: str) -> list[Class]:
        """Returns the classes of a member, newest first."""
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
            return [
                membership.read(connection, class_id, now).seen_by(visitor)
                for class_id in ids
            ]

    def join(self, class_id: str, visitor: str, nickname: str = "") -> Class:
        """Adds a visitor with the link to a class, or changes a member's nickname.

        Raises:
            ClassNotFoundError: The class does not exist, or a teacher removed the
                visitor.
            ClassOverError: The class was closed, or its time is over.
            ConfigError: The nickname is invalid.
            QuotaError: The class is full.
        """
        nickname = checked_nickname(nickname)
        with self._database.write() as connection:
            now = self._clock()
            class_ = membership.read(connection, class_id, now)
            member = class_.member(visitor)
            if member is None or not member.is_teacher:
                membership.check_is_open(class_)
                membership.enrol_student(
                    connection, class_, visitor, nickname, self._quotas
                )
            return membership.read(connection, class_id, now).seen_by(visitor)

    def teach(self, class_id: str, visitor: str) -> Class:
        """Makes a visitor with the teacher's link a teacher of the class."""
        with self._database.write() as connection:
            now = self._clock()
            class_ = membership.read(connection, class_id, now)
            membership.enrol_teacher(connection, class_, visitor)
            return membership.read(connection, class_id, now)

    def leave(self, class_id: str, visitor: str) -> None:
        """Removes the visitor and the visitor's runs from a class, at their request.

        The runs themselves are not deleted.

        Raises:
            ClassNotFoundError: The visitor is not a member of the class.
            ConfigError: The visitor is the last teacher of the class.
        """
        with self._database.write() as connection:
            class_ = membership.read_as_member(
                connection, class_id, visitor, self._clock()
            )
            teachers = [
                member.visitor
                for member in class_.members
                if member.is_teacher and member.left_at is None
            ]
            if teachers == [visitor]:
                raise ConfigError(
                    "class_id",
                    "a class must have a teacher, and you are its last one: close the "
                    "class, or delete it.",
                )
            self._take_out(connection, class_, visitor, removed=False)

    def remove_student(self, class_id: str, number: int, visitor: str) -> None:
        """Removes a student and the student's runs permanently, as a teacher."""
        with self._database.write() as connection:
            class_ = membership.read_as_teacher(
                connection, class_id, visitor, self._clock()
            )
            for member in class_.students:
                if member.number == number:
                    self._take_out(connection, class_, member.visitor, removed=True)
                    return
            raise ConfigError(
                "number",
                f"number must be the number of a student of the class, got {number}. "
                "The page of the class lists them.",
            )

    def remove_run(self, class_id: str, run_id: str, visitor: str) -> None:
        """Removes a run from a class, as a teacher or as the owner of the run."""
        with self._database.write() as connection:
            class_ = membership.read_as_member(
                connection, class_id, visitor, self._clock()
            )
            member = class_.member(visitor)
            query = (
                select(class_runs.c.run_id)
                .join(runs, runs.c.id == class_runs.c.run_id)
                .where(class_runs.c.class_id == class_id, class_runs.c.run_id == run_id)
            )
            if member is None or not member.is_teacher:
                query = query.where(runs.c.visitor == visitor)
            if connection.scalar(query) is None:
                raise not_found(run_id)
            rosters.forget_runs(connection, [run_id])
            rosters.changed(connection, class_id)

    def close(self, class_id: str, visitor: str) -> Class:
        """Closes a class, as a teacher; its members can still open its page."""
        return self._order(class_id, visitor, closed_at=self._clock())

    def renew_links(self, class_id: str, visitor: str) -> Class:
        """Replaces the links to a class, as a teacher; the old links stop working."""
        return self._order(class_id, visitor, links=classes.c.links + 1)

    def delete(self, class_id: str, visitor: str) -> None:
        """Deletes a class and its roster, as a teacher; the runs continue."""
        with self._database.write(ends=True) as connection:
            now = self._clock()
            membership.read_as_teacher(connection, class_id, visitor, now)
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
        """Queues a run that counts for a class; returns its id.

        The run counts for the network's share of the queue, but not for the network's
        launches: all students in a room have one address.

        Raises:
            ClassNotFoundError: The visitor is not a member of such a class.
            ClassOverError: The class was closed, or its time is over.
            ConfigError: See ``RunStore.create``.
            QuotaError: The quota of the class or the visitor's share of it is used
                up; see also ``RunStore.create``.
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
            class_ = membership.read_as_member(connection, class_id, visitor, now)
            membership.check_is_open(class_)
            _check_left(class_, visitor)
            launching.queue_one(
                connection,
                config,
                launch,
                name=name,
                parent=parent,
                now=now,
                **self._limits,
            )
            _count_launch(connection, class_, visitor, launch.run_id)
        return launch.run_id

    def roster(
        self, class_id: str, limit: int | None = None, *, visitor: str | None = None
    ) -> list[RosterRow]:
        """Returns the runs of a class, newest first, each with the member.

        Args:
            class_id: Id of the class.
            limit: Maximum number of runs; None returns all.
            visitor: Member whose permissions apply; None returns all runs.
        """
        query = (
            select(runs)
            .join(class_runs, class_runs.c.run_id == runs.c.id)
            .where(class_runs.c.class_id == class_id, runs.c.deleted_at.is_(None))
            .order_by(runs.c.created_at.desc(), runs.c.id)
            .limit(limit)
        )
        with self._database.read() as connection:
            class_ = membership.read(connection, class_id, self._clock())
            query = query.where(_seen_by(class_, visitor))
            members = {member.visitor: member for member in class_.members}
            rows = connection.execute(query).mappings().all()
        return [
            RosterRow(run, members.get(run.visitor)) for run in map(Run.from_row, rows)
        ]

    def events(
        self, class_id: str, after: int, limit: int, *, visitor: str | None = None
    ) -> list[StoredEvent]:
        """Returns the events of a class's runs after an event, oldest first.

        Args:
            class_id: Id of the class.
            after: Id of the last event that the caller has.
            limit: Maximum number of events.
            visitor: Member whose permissions apply; None returns events of all runs.
        """
        query = (
            select(events)
            .join_from(events, class_runs, events.c.run_id == class_runs.c.run_id)
            .join(runs, runs.c.id == events.c.run_id)
            .where(
                class_runs.c.class_id == class_id,
                runs.c.deleted_at.is_(None),
                events.c.id > after,
                events.c.kind.in_(groups.SHOWN_KINDS),
            )
            .order_by(events.c.id)
            .limit(limit)
        )
        with self._database.read() as connection:
            class_ = membership.read(connection, class_id, self._clock())
            query = query.where(_seen_by(class_, visitor))
            return [StoredEvent(*row) for row in connection.execute(query)]

    def _order(self, class_id: str, visitor: str, **values: Any) -> Class:
        with self._database.write() as connection:
            now = self._clock()
            membership.read_as_teacher(connection, class_id, visitor, now)
            changed = update(classes).where(classes.c.id == class_id)
            connection.execute(changed.values(values))
            rosters.changed(connection, class_id)
            return membership.read(connection, class_id, now)

    def _take_out(
        self, connection: Connection, class_: Class, visitor: str, *, removed: bool
    ) -> None:
        is_member = (
            class_members.c.class_id == class_.id,
            class_members.c.visitor == visitor,
        )
        values = {"left_at": class_.now, "removed": removed, "nickname": ""}
        connection.execute(update(class_members).where(*is_member).values(values))
        run_ids = select(runs.c.id).where(runs.c.visitor == visitor)
        connection.execute(
            delete(class_runs).where(
                class_runs.c.class_id == class_.id, class_runs.c.run_id.in_(run_ids)
            )
        )
        rosters.changed(connection, class_.id)

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
                    f"{noun} already created {most} classes in the last 24 hours, the "
                    "maximum. Use one of them, or try again tomorrow.",
                    DAY,
                )


def _made_since(
    connection: Connection, which: ColumnElement[bool], since: float
) -> int:
    query = select(func.count()).where(which, classes.c.created_at >= since)
    return connection.scalar(query.select_from(classes)) or 0


def _seen_by(class_: Class, visitor: str | None) -> ColumnElement[bool]:
    """Returns the condition for the runs that a member may see."""
    seen = class_ if visitor is None else class_.seen_by(visitor)
    if not seen.is_restricted:
        return true()
    return runs.c.visitor.in_([member.visitor for member in seen.members])


def _check_left(class_: Class, visitor: str) -> None:
    """Raises QuotaError if the quota of the class or of the member is used up."""
    member = class_.member(visitor)
    assert member is not None
    wait = max(1, round(class_.ends_at - class_.now))
    if class_.launched >= class_.launches:
        raise QuotaError(
            f"The class “{class_.name}” already launched {class_.launches} runs, the "
            "maximum. Launch without the class, or ask your teacher for another class.",
            wait,
        )
    if not class_.left_to(member):
        raise QuotaError(
            f"You already launched {class_.launches_each} runs for “{class_.name}”, "
            "the maximum for one student. Launch without the class.",
            wait,
        )


def _count_launch(
    connection: Connection, class_: Class, visitor: str, run_id: str
) -> None:
    connection.execute(insert(class_runs).values(run_id=run_id, class_id=class_.id))
    in_class = update(classes).where(classes.c.id == class_.id)
    connection.execute(in_class.values(launched=classes.c.launched + 1))
    of_member = update(class_members).where(
        class_members.c.class_id == class_.id, class_members.c.visitor == visitor
    )
    connection.execute(of_member.values(launched=class_members.c.launched + 1))
    rosters.changed(connection, class_.id)
