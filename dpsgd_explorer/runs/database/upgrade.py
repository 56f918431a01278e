"""Schema versions: detection and migration.

The tables of a new database are created from the current definitions.  An older
database is migrated by Alembic's revisions; Alembic is imported only in this case.
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
NEWEST = "10"
COMMAND = "python -m dpsgd_explorer database upgrade"


def version_tables(metadata: MetaData) -> tuple[Table, Table]:
    """Returns the tables ``alembic_version`` and ``schema_version``, added to metadata.

    Programs older than the use of Alembic read ``schema_version``, and reject the
    number in it.
    """
    version = String(32)
    present = Table(
        "alembic_version", metadata, Column("version_num", version, primary_key=True)
    )
    return present, Table("schema_version", metadata, Column("version", Integer))


def revision(connection: Connection) -> str | None:
    """Returns the revision of a database; None if the database is new."""
    present, former = version_tables(MetaData())
    has = inspect(connection).has_table
    if has(present.name):
        version: str | None = connection.scalar(select(present.c.version_num))
        return version
    if has(former.name):
        number = connection.scalar(select(former.c.version))
        return None if number is None else str(number)
    return None


def upgrade(connection: Connection, metadata: MetaData, url: str) -> None:
    """Creates or migrates the tables, inside a write transaction.

    Raises:
        ConfigError: A later version of the program wrote the tables.
    """
    before = revision(connection)
    if before is None:
        _create(connection, metadata)
    elif before != NEWEST:
        _migrate(connection, before, url)


def check(connection: Connection, url: str) -> None:
    """Raises ConfigError if the tables are missing or have another version."""
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


def _migrate(connection: Connection, before: str, url: str) -> None:
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
