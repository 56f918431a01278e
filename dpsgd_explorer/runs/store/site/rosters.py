"""What becomes of classes when runs or visitors are forgotten, or time passes."""

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
    """Count a change, so that pages of the class ask for its roster again."""
    values = {"version": classes.c.version + 1}
    connection.execute(update(classes).where(classes.c.id == class_id).values(values))


def forget_visitor(
    connection: Connection, visitor: str, alias: str, now: float
) -> None:
    """Take a visitor out of every class; one that has no teacher then is deleted.

    Args:
        connection: An open transaction.
        visitor: Who is forgotten.
        alias: A random name under which the classes made today still count.
        now: Unix seconds.
    """
    mine = select(class_members).where(class_members.c.visitor == visitor)
    memberships = connection.execute(mine).all()
    connection.execute(delete(class_members).where(class_members.c.visitor == visitor))
    made = update(classes).where(classes.c.maker == visitor)
    connection.execute(made.values(maker=alias))
    for member in memberships:
        changed(connection, member.class_id)
        if member.number == 0 and not _teachers(connection, member.class_id):
            delete_class(connection, member.class_id, now)


def delete_class(connection: Connection, class_id: str, now: float) -> None:
    """Delete a class; the runs stay their visitors'."""
    for table in (class_runs, class_members):
        connection.execute(delete(table).where(table.c.class_id == class_id))
    gone = {"deleted_at": now, "name": "", "setup": ""}
    connection.execute(update(classes).where(classes.c.id == class_id).values(gone))


def drop_old(connection: Connection, now: float, ended_before: float | None) -> None:
    """Delete classes that ended before a time (None: none), purge deleted ones."""
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
    """Take runs out of their classes."""
    connection.execute(delete(class_runs).where(class_runs.c.run_id.in_(run_ids)))


def _teachers(connection: Connection, class_id: str) -> int:
    query = (
        select(func.count())
        .select_from(class_members)
        .where(class_members.c.class_id == class_id, class_members.c.number == 0)
    )
    return connection.scalar(query) or 0
