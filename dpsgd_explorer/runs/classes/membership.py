"""Functions that read a class and change its members, in a caller's transaction."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from dpsgd_explorer.errors import (
    ClassNotFoundError,
    ClassOverError,
    ConfigError,
    QuotaError,
)
from dpsgd_explorer.runs.classes.records import TEACHER, Class, Member
from dpsgd_explorer.runs.store.schema import runs
from dpsgd_explorer.runs.store.site.class_tables import (
    class_members,
    class_runs,
    classes,
)
from dpsgd_explorer.runs.store.site.rosters import changed

MAX_STUDENTS = 200  # a large lecture; the page of a class lists all of them
MAX_NICKNAME_LENGTH = 30
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
    members = _named_apart([Member.of(one) for one in connection.execute(joined)])
    columns = set(Class.__dataclass_fields__) - {"members", "now"}
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


def checked_nickname(text: str) -> str:
    """Returns a nickname with single spaces; "" displays the student's number.

    Raises:
        ConfigError: The nickname is too long or not printable.
    """
    nickname = " ".join(text.split())
    if len(nickname) > MAX_NICKNAME_LENGTH or not nickname.isprintable():
        raise ConfigError(
            "nickname",
            f"nickname must have at most {MAX_NICKNAME_LENGTH} printable characters, "
            f"got {text[:60]!r}.",
        )
    return nickname


def enrol_student(
    connection: Connection, class_: Class, visitor: str, nickname: str
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
    if len(class_.students) >= MAX_STUDENTS:
        raise QuotaError(
            f"The class “{class_.name}” already has {MAX_STUDENTS} students, the "
            "maximum. Request the link of another class from your teacher.",
            RETRY_SECONDS,
        )
    is_known = before is not None and not before.is_teacher
    number = before.number if before and is_known else _next_number(connection, class_)
    _write(connection, class_, visitor, number, nickname)


def enrol_teacher(connection: Connection, class_: Class, visitor: str) -> None:
    """Makes a visitor, who may already be a student, a teacher of the class."""
    _write(connection, class_, visitor, TEACHER, "")


def remove(
    connection: Connection, class_: Class, visitor: str, *, by_teacher: bool
) -> None:
    """Removes a member and the member's runs from a class; the runs continue."""
    values = {"left_at": class_.now, "removed": by_teacher, "nickname": ""}
    _update(connection, class_, visitor, values)
    run_ids = select(runs.c.id).where(runs.c.visitor == visitor)
    connection.execute(
        delete(class_runs).where(
            class_runs.c.class_id == class_.id, class_runs.c.run_id.in_(run_ids)
        )
    )
    changed(connection, class_.id)


def not_found() -> ClassNotFoundError:
    """Returns the error for a missing class, or one the visitor has not joined."""
    return ClassNotFoundError(
        "this class does not exist, or this browser has not joined it. To join, open "
        "the complete link from your teacher."
    )


def _named_apart(members: list[Member]) -> tuple[Member, ...]:
    """Returns the members; a name that another one has, too, gets the number."""
    names = [member.name.casefold() for member in members if not member.is_teacher]
    uses = Counter([*names, "teacher"])
    return tuple(
        replace(member, nickname=f"{member.name} ({member.number})")
        if uses[member.name.casefold()] > 1 and not member.is_teacher
        else member
        for member in members
    )


def _next_number(connection: Connection, class_: Class) -> int:
    counted = update(classes).where(classes.c.id == class_.id)
    connection.execute(counted.values(students=classes.c.students + 1))
    number = select(classes.c.students).where(classes.c.id == class_.id)
    return connection.scalar(number) or 1


def _write(
    connection: Connection, class_: Class, visitor: str, number: int, nickname: str
) -> None:
    """Inserts a member, or updates the row of an earlier membership."""
    values = {"number": number, "nickname": nickname, "left_at": None, "removed": False}
    if class_.membership(visitor) is None:
        values |= {"class_id": class_.id, "visitor": visitor, "joined_at": class_.now}
        connection.execute(insert(class_members).values(values))
    else:
        _update(connection, class_, visitor, values)
    changed(connection, class_.id)


def _update(
    connection: Connection, class_: Class, visitor: str, values: dict[str, Any]
) -> None:
    is_member = (
        class_members.c.class_id == class_.id,
        class_members.c.visitor == visitor,
    )
    connection.execute(update(class_members).where(*is_member).values(values))
