"""Requests in a log of JSON: what was asked, and nothing of who asked."""

import io
import json
import logging

import pytest

from dpsgd_explorer import logs
from tests.web.conftest import SMALL


@pytest.fixture
def written():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("json", stream)
    yield stream
    logs.configure("text")
    root.handlers[:], root.level = before


def test_a_line_has_the_route_and_no_secret(client, written):
    named = {"name": "my secret plan", **SMALL}
    run_id = client.post("/api/v1/runs", json=named).json["id"]
    client.get(f"/api/v1/runs/{run_id}?token=hush")
    client.get("/where/is/it?password=hush")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(x["method"], x["path"], x["status"]) for x in lines] == [
        ("POST", "/api/v1/runs", 201),
        ("GET", "/api/v1/runs/<run_id>", 200),
        ("GET", "none", 404),
    ]
    assert all(0 <= line["ms"] < 600_000 for line in lines)
    cookie = client.get_cookie("dpsgd_visitor").value
    for secret in (run_id, "hush", "my secret plan", cookie, "127.0.0.1", "where"):
        assert secret not in written.getvalue()


def test_a_fault_of_ours_is_logged_under_its_route(
    app, client, run_id, store, written, monkeypatch
):
    monkeypatch.setitem(app.config, "PROPAGATE_EXCEPTIONS", False)
    with store.database.write() as connection:
        connection.exec_driver_sql("DROP TABLE events")
    assert client.get(f"/api/v1/runs/{run_id}/events.json").status_code == 500
    first = json.loads(written.getvalue().splitlines()[0])
    assert first["level"] == "ERROR"
    assert "OperationalError" in first["error"]
    assert "/api/v1/runs/<run_id>/events.json" in first["message"]
    assert run_id not in first["message"]
