"""Reading a class and who is in it, inside a caller's transaction."""

from __future__ import annotations

import re

from sqlalchemy import Connection, insert, select, update

from dpsgd_explorer.errors import ClassNotFoundError, ClassOverError, QuotaError
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.classes.records import TEACHER, Class, Member
from dpsgd_explorer.runs.store.site.class_tables import class_members, classes
from dpsgd_explorer.runs.store.site.rosters import changed

#: Until a class is full no more: nobody knows when a student leaves.
RETRY_SECONDS = 600
ID = re.compile("[A-Za-z0-9_-]{12}")


def read(connection: Connection, class_id: str, now: float) -> Class:
    """Return a class; ClassNotFoundError if there is none."""
    if not ID.fullmatch(class_id):
        raise not_found()  # a database takes not every text
    query = select(classes).where(
        classes.c.id == class_id, classes.c.deleted_at.is_(None)
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise not_found()
    joined = (
        select(class_members)
        .where(class_members.c.class_id == class_id)
        .order_by(class_members.c.number, class_members.c.joined_at)
    )
    members = tuple(Member.of(one) for one in connection.execute(joined))
    own = set(Class.__dataclass_fields__) - {"members", "now", "is_restricted"}
    return Class(**{name: row[name] for name in own}, members=members, now=now)


def own(connection: Connection, class_id: str, visitor: str, now: float) -> Class:
    """Return a class that a visitor is in; ClassNotFoundError otherwise."""
    found = read(connection, class_id, now)
    if not visitor or found.member(visitor) is None:
        raise not_found()
    return found


def taught(connection: Connection, class_id: str, visitor: str, now: float) -> Class:
    """Return a class that a visitor teaches; ClassNotFoundError otherwise."""
    found = own(connection, class_id, visitor, now)
    member = found.member(visitor)
    if member is None or not member.is_teacher:
        raise not_found()
    return found


def check_goes_on(found: Class) -> None:
    """Raise ClassOverError if a class was closed, or its time is up."""
    if found.is_over:
        why = "was closed by its teacher" if found.closed_at else "has ended"
        raise ClassOverError(
            f"the class “{found.name}” {why}: you can no longer join it or launch runs "
            "for it. Your earlier runs are still under Runs. Request the link of "
            "another class from your teacher."
        )


def enrol_student(
    connection: Connection, found: Class, visitor: str, nickname: str, quotas: Quotas
) -> None:
    """Add a student to a class that goes on, or let one who left return.

    Raises:
        ClassNotFoundError: a teacher removed this one.
        QuotaError: the class is full.
    """
    before = found.membership(visitor)
    if before is not None and before.removed:
        raise ClassNotFoundError(
            "the teacher removed you from this class. Talk to your teacher, or launch "
            "runs without the class under Train."
        )
    most = quotas.class_students
    joins = before is None or before.left_at is not None
    if joins and most is not None and len(found.students) >= most:
        raise QuotaError(
            f"The class “{found.name}” already has {most} students, the maximum. "
            "Request the link of another class from your teacher.",
            RETRY_SECONDS,
        )
    if before is not None:
        mine = (
            class_members.c.class_id == found.id,
            class_members.c.visitor == visitor,
        )
        back = {"left_at": None, "nickname": nickname}
        connection.execute(update(class_members).where(*mine).values(back))
    else:
        counted = update(classes).where(classes.c.id == found.id)
        connection.execute(counted.values(students=classes.c.students + 1))
        number = connection.scalar(
            select(classes.c.students).where(classes.c.id == found.id)
        )
        add(connection, found.id, visitor, number or 1, nickname, found.now)
    changed(connection, found.id)


def enrol_teacher(connection: Connection, found: Class, visitor: str) -> None:
    """Make a visitor a teacher of a class, also one who is a student of it."""
    if found.membership(visitor) is None:
        add(connection, found.id, visitor, TEACHER, "", found.now)
    else:
        mine = (
            class_members.c.class_id == found.id,
            class_members.c.visitor == visitor,
        )
        now = {"number": TEACHER, "nickname": "", "left_at": None, "removed": False}
        connection.execute(update(class_members).where(*mine).values(now))
    changed(connection, found.id)


def add(
    connection: Connection,
    class_id: str,
    visitor: str,
    number: int,
    nickname: str,
    now: float,
) -> None:
    """Write the row of a new member."""
    connection.execute(
        insert(class_members).values(
            class_id=class_id,
            visitor=visitor,
            number=number,
            nickname=nickname,
            launched=0,
            joined_at=now,
            removed=False,
        )
    )


def not_found() -> ClassNotFoundError:
    """Return the error about a class that a visitor is not in, or that is none."""
    return ClassNotFoundError(
        "this class does not exist, or this browser has not joined it. To join, open "
        "the complete link from your teacher."
    )
