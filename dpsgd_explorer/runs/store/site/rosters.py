"""Changes of classes when runs or visitors are deleted, or a class becomes old."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, or_, select, update

from dpsgd_explorer.runs.store.site.class_tables import (
    class_members,
    class_runs,
    classes,
)

DAY = 24 * 60 * 60


def changed(connection: Connection, class_id: str) -> None:
    """Counts a change, so that open pages of the class reload its roster."""
    values = {"version": classes.c.version + 1}
    connection.execute(update(classes).where(classes.c.id == class_id).values(values))


def forget_visitor(
    connection: Connection, visitor: str, alias: str, now: float
) -> None:
    """Removes a visitor from every class, and deletes classes without a teacher.

    Args:
        connection: An open transaction.
        visitor: Visitor to remove.
        alias: Random name that replaces the creator of classes, which still count for
            the daily limit.
        now: Unix seconds.
    """
    query = select(class_members).where(class_members.c.visitor == visitor)
    memberships = connection.execute(query).all()
    connection.execute(delete(class_members).where(class_members.c.visitor == visitor))
    created = update(classes).where(classes.c.maker == visitor)
    connection.execute(created.values(maker=alias))
    for member in memberships:
        changed(connection, member.class_id)
        if member.number == 0 and not _teachers(connection, member.class_id):
            delete_class(connection, member.class_id, now)


def delete_class(connection: Connection, class_id: str, now: float) -> None:
    """Deletes a class; its runs remain with their visitors."""
    for table in (class_runs, class_members):
        connection.execute(delete(table).where(table.c.class_id == class_id))
    gone = {"deleted_at": now, "name": "", "setup": ""}
    connection.execute(update(classes).where(classes.c.id == class_id).values(gone))


def drop_old(connection: Connection, now: float, ended_before: float | None) -> None:
    """Deletes old classes, and the rows of classes deleted more than a day ago.

    Args:
        connection: An open transaction.
        now: Unix seconds.
        ended_before: Time before which a class must have ended; None keeps all classes.
    """
    if ended_before is not None:
        over = or_(classes.c.ends_at < ended_before, classes.c.closed_at < ended_before)
        query = select(classes.c.id).where(over, classes.c.deleted_at.is_(None))
        for class_id in connection.scalars(query).all():
            delete_class(connection, class_id, now)
    counted = classes.c.created_at >= now - DAY
    connection.execute(
        delete(classes).where(classes.c.deleted_at.is_not(None), ~counted)
    )


def forget_runs(connection: Connection, run_ids: Sequence[str]) -> None:
    """Removes runs from their classes."""
    connection.execute(delete(class_runs).where(class_runs.c.run_id.in_(run_ids)))


def _teachers(connection: Connection, class_id: str) -> int:
    query = (
        select(func.count())
        .select_from(class_members)
        .where(class_members.c.class_id == class_id, class_members.c.number == 0)
    )
    return connection.scalar(query) or 0
