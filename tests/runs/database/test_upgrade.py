"""Databases of every version get the tables of the present one, and keep their runs."""

import sqlite3

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.classes.classes import Classes
from dpsgd_explorer.runs.database.upgrade import NEWEST
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.schema import metadata
from dpsgd_explorer.runs.store.store import RunStore

# What brings a file of the present version back to one before.
SITE_TABLES = ("counters", "workers", "orders", "ended_runs")
NEW_TABLES = ("alembic_version",)
BACK = {
    10: [
        "ALTER TABLE own_tables DROP COLUMN title",
        "UPDATE alembic_version SET version_num = '9'",
        "UPDATE schema_version SET version = 9",
    ],
    9: [
        "ALTER TABLE checkpoints DROP COLUMN program",
        "ALTER TABLE classes DROP COLUMN shares_runs",
        "UPDATE alembic_version SET version_num = '8'",
        "UPDATE schema_version SET version = 8",
    ],
    7: [
        "DROP TABLE own_tables",
        "UPDATE alembic_version SET version_num = '6'",
        "UPDATE schema_version SET version = 6",
    ],
    6: [
        *(f"DROP TABLE {name}" for name in ("classes", "class_members", "class_runs")),
        "ALTER TABLE launches DROP COLUMN class_id",
        "UPDATE alembic_version SET version_num = '5'",
        "UPDATE schema_version SET version = 5",
    ],
    8: [
        "ALTER TABLE runs DROP COLUMN title",
        "UPDATE alembic_version SET version_num = '7'",
        "UPDATE schema_version SET version = 7",
    ],
    5: [
        *(f"DROP TABLE {name}" for name in NEW_TABLES),
        "UPDATE schema_version SET version = 4",
    ],
    4: [
        *(f"DROP TABLE {name}" for name in SITE_TABLES),
        "UPDATE schema_version SET version = 3",
    ],
    3: [
        *(f"DROP TABLE {name}" for name in ("groups", "weights")),
        "ALTER TABLE runs DROP COLUMN until_step",
        "ALTER TABLE runs DROP COLUMN changes",
        "ALTER TABLE runs DROP COLUMN note",
        "ALTER TABLE runs DROP COLUMN starred",
        "DROP INDEX deleted_runs",
        "ALTER TABLE runs DROP COLUMN deleted_at",
        "UPDATE schema_version SET version = 2",
    ],
    2: [
        "ALTER TABLE runs DROP COLUMN holder",
        "DROP TABLE launches",
        "CREATE TABLE launches (run_id VARCHAR(43) PRIMARY KEY, at FLOAT)",
        "UPDATE schema_version SET version = 1",
    ],
}


def bring_back(database, version):
    with database.write() as connection:
        for present in range(int(NEWEST), version, -1):
            for statement in BACK[present]:
                connection.exec_driver_sql(statement)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_a_file_of_an_earlier_version_is_brought_up_with_its_runs(
    store, database_url, config, version
):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    store.leases.save_checkpoint(claim, b"state")
    log = store.events(run.id)
    bring_back(store.database, version)
    later = RunStore(database_url)
    assert later.get(run.id).config == run.config
    assert later.events(run.id) == log
    assert later.leases.checkpoint(run.id).data == b"state"
    assert differences(later.database) == []
    assert later.database.revision() == NEWEST
    later.create(config, visitor="ann")
    later.database.close()


def differences(database):
    """Return in what the tables differ from their description."""
    with database.read() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_server_default": False}
        )
        return compare_metadata(context, metadata)


def test_a_program_from_before_alembic_refuses_a_file_of_today(store, database_url):
    with sqlite3.connect(database_url.removeprefix("sqlite:///")) as file:
        assert file.execute("SELECT version FROM schema_version").fetchall() == [
            (int(NEWEST),)
        ]
    file.close()


@pytest.fixture(params=["UTF8", "SQL_ASCII"])
def empty(postgresql, request):
    """The address of a database without tables; the second has no encoding."""
    postgresql.ask(
        f"CREATE DATABASE empty ENCODING '{request.param}' TEMPLATE template0"
    )
    yield postgresql.url("empty")
    postgresql.ask("DROP DATABASE empty WITH (FORCE)")


@pytest.mark.long("servers")
def test_a_servers_database_gets_its_tables_by_the_command_only(
    empty, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path))
    monkeypatch.setenv("DPSGD_DATABASE_URL", empty)
    with pytest.raises(ConfigError, match=r"no tables yet. Create .* upgrade"):
        RunStore(empty)
    assert main(["database", "current"]) == 1
    assert main(["database", "upgrade"]) == 0
    assert main(["database", "upgrade"]) == 0
    assert main(["database", "current"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said] == [
        f"no tables, this program needs schema {NEWEST}",
        *[f"schema {NEWEST}"] * 2,
        f"schema {NEWEST}, this program needs schema {NEWEST}",
    ]
    store = RunStore(empty)
    assert sum(store.counts().values()) == 0
    assert differences(store.database) == []
    store.database.close()


@pytest.mark.long("servers")
def test_a_servers_tables_of_before_are_migrated_with_their_classes(empty):
    Database(empty, on_open="upgrade").close()
    store = RunStore(empty)
    classes = Classes(store.database, store.clock, quotas=Quotas(), cost_limit=1.0)
    networks = ("2001:db8:1:2::/64", "2001:db8:1:3::/64", "192.0.2.0/24", "")
    for network in networks:
        classes.create("Physics", visitor="ann", network=network)
    bring_back(store.database, 8)
    store.database.close()
    Database(empty, on_open="upgrade").close()
    later = RunStore(empty)
    with later.database.read() as connection:
        query = "SELECT network, shares_runs FROM classes ORDER BY network"
        found = connection.exec_driver_sql(query).all()
    wide = "2001:db8:1::/48"
    assert found == [(each, True) for each in ("", "192.0.2.0/24", wide, wide)]
    assert differences(later.database) == []
    later.database.close()


@pytest.mark.long("servers")
@pytest.mark.parametrize(
    ("version", "words"),
    [(3, "Back the database up, then .* database upgrade"), (99, "later")],
)
def test_a_servers_database_of_another_version_is_refused(empty, version, words):
    Database(empty, on_open="upgrade").close()
    look = Database(empty, on_open="look")
    with look.write() as connection:
        text = f"UPDATE alembic_version SET version_num = '{version}'"
        connection.exec_driver_sql(text)
    look.close()
    with pytest.raises(ConfigError, match=words):
        RunStore(empty)
    if version == 99:
        with pytest.raises(ConfigError, match=words):
            Database(empty, on_open="upgrade")
