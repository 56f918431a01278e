"""Functions that read a class and its members, inside a caller's transaction."""

from __future__ import annotations

import re

from sqlalchemy import Connection, insert, select, update

from dpsgd_explorer.errors import ClassNotFoundError, ClassOverError, QuotaError
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.classes.records import TEACHER, Class, Member
from dpsgd_explorer.runs.store.site.class_tables import class_members, classes
from dpsgd_explorer.runs.store.site.rosters import changed

#: Value of Retry-After if a class is full; the time when a student leaves is unknown.
RETRY_SECONDS = 600
ID = re.compile("[A-Za-z0-9_-]{12}")


def read(connection: Connection, class_id: str, now: float) -> Class:
    """Returns a class; raises ClassNotFoundError if it does not exist."""
    if not ID.fullmatch(class_id):
        raise not_found()  # PostgreSQL rejects some strings, such as NUL
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
    members = tuple(Member.of(member) for member in connection.execute(joined))
    columns = set(Class.__dataclass_fields__) - {"members", "now", "is_restricted"}
    return Class(**{name: row[name] for name in columns}, members=members, now=now)


def read_as_member(
    connection: Connection, class_id: str, visitor: str, now: float
) -> Class:
    """Returns a class of a member; raises ClassNotFoundError for other visitors."""
    class_ = read(connection, class_id, now)
    if not visitor or class_.member(visitor) is None:
        raise not_found()
    return class_


def read_as_teacher(
    connection: Connection, class_id: str, visitor: str, now: float
) -> Class:
    """Returns a class of a teacher; raises ClassNotFoundError for other visitors."""
    class_ = read_as_member(connection, class_id, visitor, now)
    member = class_.member(visitor)
    if member is None or not member.is_teacher:
        raise not_found()
    return class_


def check_is_open(class_: Class) -> None:
    """Raises ClassOverError if a class was closed, or its time is over."""
    if class_.is_over:
        why = "was closed by its teacher" if class_.closed_at else "has ended"
        raise ClassOverError(
            f"the class “{class_.name}” {why}: you can no longer join it or launch "
            "runs for it. Your earlier runs are still under Runs. Request the link of "
            "another class from your teacher."
        )


def enrol_student(
    connection: Connection, class_: Class, visitor: str, nickname: str, quotas: Quotas
) -> None:
    """Adds a student to an open class, or lets a student who left return.

    Raises:
        ClassNotFoundError: A teacher removed the student.
        QuotaError: The class is full.
    """
    before = class_.membership(visitor)
    if before is not None and before.removed:
        raise ClassNotFoundError(
            "the teacher removed you from this class. Talk to your teacher, or launch "
            "runs without the class under Train."
        )
    most = quotas.class_students
    joins = before is None or before.left_at is not None
    if joins and most is not None and len(class_.students) >= most:
        raise QuotaError(
            f"The class “{class_.name}” already has {most} students, the maximum. "
            "Request the link of another class from your teacher.",
            RETRY_SECONDS,
        )
    if before is not None:
        is_member = (
            class_members.c.class_id == class_.id,
            class_members.c.visitor == visitor,
        )
        values = {"left_at": None, "nickname": nickname}
        connection.execute(update(class_members).where(*is_member).values(values))
    else:
        counted = update(classes).where(classes.c.id == class_.id)
        connection.execute(counted.values(students=classes.c.students + 1))
        number = connection.scalar(
            select(classes.c.students).where(classes.c.id == class_.id)
        )
        add(connection, class_.id, visitor, number or 1, nickname, class_.now)
    changed(connection, class_.id)


def enrol_teacher(connection: Connection, class_: Class, visitor: str) -> None:
    """Makes a visitor, who may already be a student, a teacher of the class."""
    if class_.membership(visitor) is None:
        add(connection, class_.id, visitor, TEACHER, "", class_.now)
    else:
        is_member = (
            class_members.c.class_id == class_.id,
            class_members.c.visitor == visitor,
        )
        values = {"number": TEACHER, "nickname": "", "left_at": None, "removed": False}
        connection.execute(update(class_members).where(*is_member).values(values))
    changed(connection, class_.id)


def add(
    connection: Connection,
    class_id: str,
    visitor: str,
    number: int,
    nickname: str,
    now: float,
) -> None:
    """Inserts the row of a new member."""
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
    """Returns the error for a missing class, or one the visitor has not joined."""
    return ClassNotFoundError(
        "this class does not exist, or this browser has not joined it. To join, open "
        "the complete link from your teacher."
    )
