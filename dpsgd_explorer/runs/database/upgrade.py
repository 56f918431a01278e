"""Versions of the tables: which one a database has, and how it gets the present one.

A new database is made from the tables as they are described; an older one is brought
up by Alembic's revisions.  Alembic is imported only then.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    insert,
    inspect,
    select,
)

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.database.address import shown

REVISIONS = Path(__file__).with_name("revisions")
NEWEST = "9"
COMMAND = "python -m dpsgd_explorer database upgrade"


def version_tables(metadata: MetaData) -> tuple[Table, Table]:
    """Add the tables that hold the version.

    The second was read before there was Alembic: programs of that time refuse the
    number in it.
    """
    version = String(32)
    present = Table(
        "alembic_version", metadata, Column("version_num", version, primary_key=True)
    )
    return present, Table("schema_version", metadata, Column("version", Integer))


def revision(connection: Connection) -> str | None:
    """Return the revision that a database has; None if it is new."""
    present, former = version_tables(MetaData())
    has = inspect(connection).has_table
    if has(present.name):
        found: str | None = connection.scalar(select(present.c.version_num))
        return found
    if has(former.name):
        number = connection.scalar(select(former.c.version))
        return None if number is None else str(number)
    return None


def upgrade(connection: Connection, metadata: MetaData, url: str) -> None:
    """Make the tables, or bring them up, inside a transaction that writes.

    Raises:
        ConfigError: the tables are of a later version than this program's.
    """
    before = revision(connection)
    if before is None:
        _create(connection, metadata)
    elif before != NEWEST:
        _bring_up(connection, before, url)


def check(connection: Connection, url: str) -> None:
    """Refuse tables of another version.

    Raises:
        ConfigError: it names the command that brings older ones up.
    """
    before = revision(connection)
    if before is None:
        raise ConfigError(
            "DPSGD_DATABASE_URL",
            f"the database {shown(url)} has no tables yet. Create them with: {COMMAND}",
        )
    if before == NEWEST:
        return
    if not _is_older(before):
        raise _later(before, url)
    raise ConfigError(
        "DPSGD_DATABASE_URL",
        f"the database {shown(url)} has schema {before}, this program needs {NEWEST}. "
        f"Back the database up, then migrate it with: {COMMAND}",
    )


def _create(connection: Connection, metadata: MetaData) -> None:
    metadata.create_all(connection)
    present, former = version_tables(MetaData())
    connection.execute(insert(present).values(version_num=NEWEST))
    connection.execute(insert(former).values(version=int(NEWEST)))


def _bring_up(connection: Connection, before: str, url: str) -> None:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    if not _is_older(before):
        raise _later(before, url)
    config = Config()
    config.set_main_option("script_location", str(REVISIONS.parent))
    config.set_main_option("version_locations", str(REVISIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    scripts = ScriptDirectory.from_config(config)
    with EnvironmentContext(
        config,
        scripts,
        fn=lambda _present, _context: scripts._upgrade_revs(NEWEST, before),
    ) as environment:
        environment.configure(connection=connection)
        if not inspect(connection).has_table("alembic_version"):
            environment.get_context().stamp(scripts, before)
        environment.run_migrations()


def _is_older(version: str) -> bool:
    return version.isdecimal() and 1 <= int(version) < int(NEWEST)


def _later(version: str, url: str) -> ConfigError:
    return ConfigError(
        "DPSGD_DATABASE_URL",
        f"the database {shown(url)} has schema {version}, this program needs {NEWEST}: "
        "a later version of the program wrote it. Use that version, or another "
        "database.",
    )
