"""A store on a fresh database, with a clock that the test moves."""

from pathlib import Path

import pytest
from sqlalchemy import event

from dpsgd_explorer.runs.store import RunStore
from dpsgd_explorer.training.config import TrainingConfig


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


@pytest.fixture
def database_url(tmp_path: Path):
    return f"sqlite:///{tmp_path / 'runs.sqlite3'}"


@pytest.fixture
def store(database_url, clock):
    opened = RunStore(database_url, clock=clock, lease_clock=clock)
    yield opened
    opened.database.close()


CHEAP = {
    "training": {
        "dataset": "adult",
        "model": "logistic",
        "expected_batch_size": 256,
        "noise_multiplier": 1.0,
        "steps": 20,
    },
    "regression": {
        "kind": "regression",
        "noise_multiplier": 50.0,
        "steps": 20,
        "repetitions": 3,
        "evaluations": 20,
    },
}


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
