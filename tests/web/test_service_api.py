"""The service about itself."""

import pytest
from sqlalchemy import text

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.schema import MOVES
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
    }


def test_health_needs_a_database_that_can_be_read(app, client, store):
    with store.database.write() as connection:
        connection.execute(text("DROP TABLE runs"))
    app.config["PROPAGATE_EXCEPTIONS"] = False
    error_of(client.get("/healthz"), 500)


def test_nothing_that_is_not_json_leaves(app):
    with pytest.raises(ValueError, match="not JSON compliant"):
        app.json.dumps({"epsilon": float("nan")})
