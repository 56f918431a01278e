"""The service about itself."""

import os
import time

import pytest
from sqlalchemy import text

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.store.schema import MOVES
from dpsgd_explorer.runs.worker.heartbeat import HUNG_SECONDS, Heartbeat, file_of
from tests.web.conftest import SMALL, error_of


def test_health_tells_version_profile_and_queue(make_app):
    client = make_app(profile="public").test_client()
    client.post("/api/v1/runs", json=SMALL)
    runs = dict.fromkeys(MOVES, 0) | {"queued": 1}
    assert client.get("/healthz").json == {
        "status": "ok",
        "version": __version__,
        "profile": "public",
        "runs": runs,
        "worker_seen_seconds_ago": None,
    }


def test_health_says_when_a_worker_was_seen_and_fails_without_one(
    app, client, settings
):
    assert client.get("/healthz").json["worker_seen_seconds_ago"] is None
    heartbeat = Heartbeat(settings.instance_dir)
    heartbeat.beat()
    assert 0 <= client.get("/healthz").json["worker_seen_seconds_ago"] < HUNG_SECONDS
    hung_ns = time.monotonic_ns() - int((HUNG_SECONDS + 1) * 1e9)
    file = file_of(settings.instance_dir, os.getpid())
    os.utime(file, ns=(hung_ns, hung_ns))
    error = error_of(client.get("/healthz"), 503)
    assert error["code"] == "no_worker"
    assert "no worker was seen for 31 seconds" in error["message"]
    heartbeat.beat()
    assert client.get("/healthz").status_code == 200
    heartbeat.end()
    app.extensions["started_at"] -= HUNG_SECONDS
    error_of(client.get("/healthz"), 503)


def test_health_needs_a_database_that_can_be_read(app, client, store):
    with store.database.write() as connection:
        connection.execute(text("DROP TABLE runs"))
    app.config["PROPAGATE_EXCEPTIONS"] = False
    error_of(client.get("/healthz"), 500)


def test_nothing_that_is_not_json_leaves(app):
    with pytest.raises(ValueError, match="not JSON compliant"):
        app.json.dumps({"epsilon": float("nan")})
