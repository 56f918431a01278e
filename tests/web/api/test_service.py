"""The service about itself."""

import pytest
from sqlalchemy import text, update

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.database.upgrade import NEWEST
from dpsgd_explorer.runs.operation.workers import (
    HEARTBEAT_SECONDS,
    LOST_SECONDS,
    WorkerSign,
)
from dpsgd_explorer.runs.store.site.tables import workers
from tests.web.conftest import error_of


@pytest.fixture
def sign(store):
    """The sign of a worker, due at each call."""
    due = iter(range(0, 10**6, 100))
    return WorkerSign(
        store.database, 2, clock=store.clock, pause_clock=lambda: next(due)
    )


def drop(store, table):
    with store.database.write() as connection:
        connection.execute(text(f"DROP TABLE {table}"))


def test_health_says_that_the_process_lives_whatever_the_database_does(make_app):
    app = make_app(profile="public")
    drop(app.extensions["run_store"], "runs")
    assert app.test_client().get("/healthz").json == {
        "status": "ok",
        "version": __version__,
        "profile": "public",
    }


def test_a_site_is_ready_while_a_worker_gives_signs(client, store, sign):
    error = error_of(client.get("/readyz"), 503, says="worker: no worker was seen")
    assert error["code"] == "not_ready"
    sign.tend(1)
    ready = client.get("/readyz").json
    assert ready["status"] == "ready"
    assert ready["checks"]["schema"] == f"version {NEWEST}"
    assert ready["checks"]["worker"].startswith("1 seen")
    with store.database.write() as connection:
        late = workers.c.seen_at - LOST_SECONDS - HEARTBEAT_SECONDS
        connection.execute(update(workers).values(seen_at=late))
    error_of(client.get("/readyz"), 503, says="no worker was seen for 3")
    sign.tend(0)
    assert client.get("/readyz").status_code == 200
    sign.end()
    error_of(client.get("/readyz"), 503, says="worker: no worker was seen")


def test_what_a_site_lacks_is_named(app, client, store, sign):
    sign.tend(0)
    with store.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '3'"))
    message = error_of(client.get("/readyz"), 503)["message"]
    assert message == (
        f"schema: the database has schema 3, this program needs {NEWEST}."
    )
    app.extensions["doorbell"].huey.storage.conn.execute("DROP TABLE task")
    drop(store, "runs")
    message = error_of(client.get("/readyz"), 503)["message"]
    assert "database: " in message
    assert "queue: no such table: task" in message


def test_nothing_that_is_not_json_leaves(app):
    with pytest.raises(ValueError, match="not JSON compliant"):
        app.json.dumps({"epsilon": float("nan")})
