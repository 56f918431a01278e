"""Classes: created by a teacher and joined through a link.

Runs launched for a class count for the quota of the class, which its members share.
They do not count for the launch quota of the network, because all students in a room
have one address.  In the queue, visitors take turns as usual, and each run belongs to
the visitor who launched it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from dpsgd_explorer.errors import ConfigError, QuotaError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.identifiers import new_id
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.classes import membership
from dpsgd_explorer.runs.classes.records import Class, RosterRow
from dpsgd_explorer.runs.store import admission, groups, launching
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.labels import checked_name
from dpsgd_explorer.runs.store.records import Run, StoredEvent
from dpsgd_explorer.runs.store.schema import events, runs
from dpsgd_explorer.runs.store.site import rosters
from dpsgd_explorer.runs.store.site.class_tables import (
    class_members,
    class_runs,
    classes,
)

ID_BYTES = 9
DAY = 24 * 60 * 60
#: Quota of a class: about 30 students with 30 runs each.
LAUNCHES = 1000
#: Duration of a class: one term.
DAYS = 120
#: New classes of one visitor and of one network in 24 hours, on a site that limits
#: launches per day.  Launches for a class do not count for that limit.
MAX_CLASSES_A_DAY = 6
MAX_SETUP_LENGTH = 2000  # characters


class Classes:
    """Classes in a database; safe to share between threads.

    Args:
        database: Database of the runs.
        clock: Returns unix seconds.
        quotas: Limits of visitors, networks and the site.
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

    def create(
        self,
        name: str,
        *,
        visitor: str,
        network: str = "",
        setup: str = "",
        shares_runs: bool = True,
    ) -> Class:
        """Creates a class with the visitor as its teacher.

        Args:
            name: Displayed name, 1 to 60 printable characters.
            visitor: Creator of the class.
            network: Network of the request, see ``networks``; "" if no quota counts it.
            setup: Query string of the trainer page that students start from; "" uses
                the default settings.
            shares_runs: If True, students see each other and each other's runs.

        Raises:
            ConfigError: The name or the set-up is invalid.
            QuotaError: The visitor or the network has created too many classes in the
                last 24 hours.
        """
        name = " ".join(checked_name("name", name).split())
        if not name:
            raise ConfigError(
                "name", "name must not be empty: students see it when they join."
            )
        if len(setup) > MAX_SETUP_LENGTH:
            raise ConfigError(
                "setup",
                f"setup must have at most {MAX_SETUP_LENGTH} characters, got "
                f"{len(setup)}.",
            )
        class_id = new_id(ID_BYTES)
        with self._database.write() as connection:
            now = self._clock()
            rosters.drop_old(connection, now, None)
            if self._quotas.launches_a_day is not None:
                _check_creators(connection, visitor, network, now)
            connection.execute(
                insert(classes).values(
                    id=class_id,
                    name=name,
                    maker=visitor,
                    network=network,
                    setup=setup,
                    launches=LAUNCHES,
                    launched=0,
                    created_at=now,
                    ends_at=now + DAYS * DAY,
                    links=1,
                    students=0,
                    version=1,
                    shares_runs=shares_runs,
                )
            )
            created = membership.read(connection, class_id, now)
            membership.enrol_teacher(connection, created, visitor)
            return membership.read(connection, class_id, now)

    def find(self, class_id: str) -> Class:
        """Returns a class for a visitor with a link to it.

        Raises:
            ClassNotFoundError: The class does not exist.
        """
        with self._database.read() as connection:
            return membership.read(connection, class_id, self._clock())

    def get(self, class_id: str, visitor: str) -> Class:
        """Returns a class of a member.

        Raises:
            ClassNotFoundError: The visitor is not a member of such a class.
        """
        with self._database.read() as connection:
            now = self._clock()
            return membership.read_as_member(connection, class_id, visitor, now)

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
            return [membership.read(connection, class_id, now) for class_id in ids]

    def join(self, class_id: str, visitor: str, nickname: str = "") -> Class:
        """Adds a visitor with the link to a class; a member stays as before.

        Raises:
            ClassNotFoundError: The class does not exist, or a teacher removed the
                visitor.
            ClassOverError: The class was closed, or its time is over.
            ConfigError: The nickname is invalid.
            QuotaError: The class is full.
        """
        nickname = membership.checked_nickname(nickname)
        with self._database.write() as connection:
            now = self._clock()
            class_ = membership.read(connection, class_id, now)
            if class_.member(visitor) is None:
                membership.check_is_open(class_)
                membership.enrol_student(connection, class_, visitor, nickname)
            return membership.read(connection, class_id, now)

    def teach(self, class_id: str, visitor: str) -> Class:
        """Makes a visitor with the teacher's link a teacher of the class."""
        with self._database.write() as connection:
            now = self._clock()
            class_ = membership.read(connection, class_id, now)
            membership.enrol_teacher(connection, class_, visitor)
            return membership.read(connection, class_id, now)

    def leave(self, class_id: str, visitor: str) -> None:
        """Removes a student and the student's runs from a class, at their request.

        The runs themselves are not deleted.

        Raises:
            ClassNotFoundError: The visitor is not a member of the class.
            ConfigError: The visitor is a teacher of the class.
        """
        with self._database.write() as connection:
            now = self._clock()
            class_ = membership.read_as_member(connection, class_id, visitor, now)
            if visitor not in {student.visitor for student in class_.students}:
                raise ConfigError(
                    "class_id",
                    "class_id must be a class that you joined as a student, got one "
                    "that you teach. Close the class, or delete it.",
                )
            membership.remove(connection, class_, visitor, by_teacher=False)

    def remove_student(self, class_id: str, number: int, visitor: str) -> None:
        """Removes a student and the student's runs permanently, as a teacher."""
        with self._database.write() as connection:
            now = self._clock()
            class_ = membership.read_as_teacher(connection, class_id, visitor, now)
            for student in class_.students:
                if student.number == number:
                    membership.remove(
                        connection, class_, student.visitor, by_teacher=True
                    )
                    return
            raise ConfigError(
                "number",
                f"number must be the number of a student of the class, got {number}. "
                "The page of the class lists them.",
            )

    def close(self, class_id: str, visitor: str) -> Class:
        """Closes a class, as a teacher; its members can still open its page."""
        with self._database.write() as connection:
            now = self._clock()
            membership.read_as_teacher(connection, class_id, visitor, now)
            closed = update(classes).where(classes.c.id == class_id)
            connection.execute(closed.values(closed_at=now))
            rosters.changed(connection, class_id)
            return membership.read(connection, class_id, now)

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
        title: str = "",
        group: str = "",
        parent: str = "",
    ) -> Run:
        """Queues and returns a run that counts for a class.

        The run counts for the network's share of the queue, but not for the network's
        launches: all students in a room have one address.

        Raises:
            ClassNotFoundError: The visitor is not a member of such a class.
            ClassOverError: The class was closed, or its time is over.
            ConfigError: See ``RunStore.create``.
            QuotaError: The quota of the class is used up; see also
                ``RunStore.create``.
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
            _check_quota(class_)
            groups.check_name_is_free(connection, launch.group)
            run = launching.queue(
                connection,
                config,
                launch,
                name=checked_name("name", name),
                title=title,
                parent=parent,
                now=now,
                **self._limits,
            )
            in_class = {"run_id": launch.run_id, "class_id": class_id}
            connection.execute(insert(class_runs).values(in_class))
            counted = update(classes).where(classes.c.id == class_id)
            connection.execute(counted.values(launched=classes.c.launched + 1))
            rosters.changed(connection, class_id)
        return run

    def roster(
        self, class_: Class, visitor: str, limit: int | None = None
    ) -> list[RosterRow]:
        """Returns the runs of a class that a member may see, newest first.

        Args:
            class_: The class.
            visitor: The member.
            limit: Maximum number of runs; None returns all.
        """
        query = (
            _seen_runs(select(runs), class_, visitor)
            .order_by(runs.c.created_at.desc(), runs.c.id)
            .limit(limit)
        )
        members = {member.visitor: member for member in class_.members}
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [
            RosterRow(run, members[run.visitor])
            for run in map(Run.from_row, rows)
            if run.visitor in members
        ]

    def events(
        self, class_: Class, visitor: str, after: int, limit: int
    ) -> list[StoredEvent]:
        """Returns events of the runs of a class that a member may see, oldest first.

        Args:
            class_: The class.
            visitor: The member.
            after: Id of the last event that the caller has.
            limit: Maximum number of events.
        """
        query = (
            _seen_runs(
                select(events).join(runs, runs.c.id == events.c.run_id), class_, visitor
            )
            .where(events.c.id > after, events.c.kind.in_(groups.SHOWN_KINDS))
            .order_by(events.c.id)
            .limit(limit)
        )
        with self._database.read() as connection:
            return [StoredEvent(*row) for row in connection.execute(query)]


def _seen_runs(query: Any, class_: Class, visitor: str) -> Any:
    """Returns a query of the runs of a class that a member may see."""
    seen: ColumnElement[bool] = true()
    if not class_.shows_all_to(visitor):
        teachers = [member.visitor for member in class_.members if member.is_teacher]
        seen = or_(runs.c.visitor == visitor, runs.c.visitor.in_(teachers))
    return query.join(class_runs, class_runs.c.run_id == runs.c.id).where(
        class_runs.c.class_id == class_.id, runs.c.deleted_at.is_(None), seen
    )


def _check_creators(
    connection: Connection, visitor: str, network: str, now: float
) -> None:
    """Raises QuotaError if a visitor or a network has created too many classes."""
    is_its = classes.c.maker == visitor
    if network:
        is_its |= classes.c.network == network
    query = select(func.count()).select_from(classes)
    number = connection.scalar(query.where(is_its, classes.c.created_at >= now - DAY))
    if (number or 0) >= MAX_CLASSES_A_DAY:
        raise QuotaError(
            f"You and your network already created {MAX_CLASSES_A_DAY} classes in the "
            "last 24 hours, the maximum. Use one of them, or try again tomorrow.",
            DAY,
        )


def _check_quota(class_: Class) -> None:
    """Raises QuotaError if the quota of a class is used up."""
    if class_.launched >= class_.launches:
        raise QuotaError(
            f"The class “{class_.name}” already launched {class_.launches} runs, the "
            "maximum. Launch without the class, or ask your teacher for another class.",
            max(1, round(class_.ends_at - class_.now)),
        )
