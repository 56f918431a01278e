"""A store on a fresh database, its clock moved by the test; a consumer beside it."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.store.schema import metadata
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.worker.consumer import Consumer
from dpsgd_explorer.settings import Settings
from tests.runs.real_runs import CHEAP, long_config
from tests.runs.servers import PostgreSQL, Redis
from tests.runs.system_processes import children_of


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now

    def forward(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def postgresql():
    """A server; its database "runs" has the tables."""
    server = PostgreSQL()
    try:
        server.start()
        server.ask("CREATE DATABASE runs")
        Database(server.url("runs"), on_open="upgrade").close()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def redis_server():
    server = Redis()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def postgresql_url(postgresql):
    """The address of a database of which all tables but those of versions are empty."""
    names = set(metadata.tables) - {"alembic_version", "schema_version"}
    statements = [f"DELETE FROM {name}" for name in names]
    postgresql.ask("; ".join(statements), "runs")
    return postgresql.url("runs")


def pytest_generate_tests(metafunc):
    """Run a module's tests on every database it names in ``DATABASES``."""
    databases = getattr(metafunc.module, "DATABASES", None)
    if databases and "database_url" in metafunc.fixturenames:
        metafunc.parametrize("database_url", databases, indirect=True)


@pytest.fixture
def database_url(request, tmp_path: Path, blank_database):
    """The address of a file, or of what the test is parametrised by."""
    if getattr(request, "param", "sqlite") == "postgresql":
        return request.getfixturevalue("postgresql_url")
    file = shutil.copyfile(blank_database, tmp_path / "runs.sqlite3")
    return f"sqlite:///{file}"


@pytest.fixture
def store(database_url, clock):
    opened = RunStore(database_url, clock=clock, lease_clock=clock)
    yield opened
    opened.database.close()


@pytest.fixture
def limited(database_url, clock):
    """Give a store with some quotas, or with a bound on the cost of a run."""
    opened = []

    def limited(cost_limit=float("inf"), **quotas):
        store = RunStore(
            database_url, quotas=Quotas(**quotas), cost_limit=cost_limit, clock=clock
        )
        opened.append(store)
        return store

    yield limited
    for store in opened:
        store.database.close()


@pytest.fixture
def config():
    """The cheapest run there is."""
    return TrainingConfig.parse(CHEAP["training"])


@pytest.fixture
def fill_up(store):
    """Let the database grow no further; call the result to let it grow again."""
    limit = 2**30
    engine = store.database.engine

    @event.listens_for(engine, "connect")
    def limit_pages(connection, _record):
        connection.execute(f"PRAGMA max_page_count = {limit}")

    def set_limit(pages):
        nonlocal limit
        limit = pages
        engine.dispose()  # the limit belongs to a connection

    def fill_up():
        with store.database.read() as connection:
            set_limit(connection.exec_driver_sql("PRAGMA page_count").scalar())
        return lambda: set_limit(2**30)

    return fill_up


@pytest.fixture
def settings(tmp_path):
    return Settings.from_environment(
        {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_WORKERS": "1"}
    )


@pytest.fixture
def consumer(settings):
    """Give a consumer whose threads are the test's own, with some settings changed."""
    made = []

    def consumer(lease_s=LEASE_SECONDS, **changes):
        made.append(Consumer(replace(settings, **changes), lease_s=lease_s))
        return made[-1]

    yield consumer
    for each in made:
        each.stop()
        each.close()
        each.doorbell.huey.storage.close()


@pytest.fixture(scope="session")
def killed_config():
    """Many times as long as it takes to kill its process, on a fast machine too."""
    return long_config(600)


@pytest.fixture
def own_children():
    """Ask for the processes this test started (others may share the session)."""
    before = set(children_of(os.getpid()))
    return lambda: [pid for pid in children_of(os.getpid()) if pid not in before]
