"""Every row of bad input and its answer, over the real routes and store."""

import io
import json
import sqlite3
import threading

import pytest
from sqlalchemy import event

from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.runs.store.database import Database
from tests.runs.system_processes import PATIENCE_SECONDS
from tests.web.conftest import SMALL, error_of

RUNS = "/api/v1/runs"
JSON = "application/json"

BAD_SETTINGS = [
    ("stepz", 3, "unknown setting 'stepz'"),
    ("learning_rate", float("nan"), "a finite number, got nan"),
    ("max_grad_norm", float("inf"), "a finite number, got inf"),
    ("noise_multiplier", float("-inf"), "a finite number, got -inf"),
    ("learning_rate", "fast", "a number, got 'fast'"),
    ("steps", "10", "a whole number, got '10'"),
    ("steps", 1.5, "a whole number, got 1.5"),
    ("private", "yes", "true or false, got 'yes'"),
    ("noise_multiplier", -0.1, "at least 0, got -0.1"),
    ("max_grad_norm", 0, "greater than 0, got 0"),
    ("max_grad_norm", -1, "greater than 0, got -1"),
    ("expected_batch_size", 0, "at least 1, got 0"),
    ("expected_batch_size", 60_001, "at most N = 60000, got 60001"),
    ("target_epsilon", 0, "greater than 0, got 0"),
    ("delta", 1 / 60_000, "below 1/N = 1/60000"),
    ("delta", 0, "greater than 0, got 0"),
    ("model", "resnet152", f"one of {', '.join(MODELS)}, got 'resnet152'"),
    ("dataset", "imagenet", f"one of {', '.join(DATA_SETS)}, got 'imagenet'"),
    ("kind", "inference", "kind"),
    ("seed", -1, "at least 0, got -1"),
    ("seed", 2**63, "at most"),
    ("name", "x" * 61, "at most 60 printable characters"),
    ("name", "two\nlines", "printable"),
    ("name", "\ud800", "printable"),
    ("group", "\x00", "printable"),
    ("parent", "no-such-run", "parent must be the id of a run"),
    ("parent", "\ud800", "parent must be the id of a run"),
]

# A hundred thousand steps over every record: no noise that a float holds is enough.
OUT_OF_REACH = SMALL | {
    "expected_batch_size": 32_561,
    "accountant": "rdp",
    "steps": 100_000,
    "target_epsilon": 1e-5,
    "delta": 1e-12,
}


def post(client, body):
    """Send JSON as Python writes it, NaN included."""
    return client.post(RUNS, data=json.dumps(body), content_type=JSON)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    BAD_SETTINGS,
    ids=[f"{f}={v!r:.20}" for f, v, _ in BAD_SETTINGS],
)
def test_a_bad_setting_is_named_with_its_rule_and_what_came(
    client, store, field, value, says
):
    error = error_of(post(client, {field: value}), 422)
    assert (error["code"], error["field"]) == ("invalid_config", field)
    assert says in error["message"]
    assert error["fields"] == {field: error["message"]}
    assert store.counts()["queued"] == 0


def test_the_answer_to_nan_is_itself_json(client):
    text = client.post(RUNS, data='{"delta": NaN}', content_type=JSON).text

    def refuse(constant):
        pytest.fail(f"{constant} is not JSON")

    json.loads(text, parse_constant=refuse)


def test_every_bad_setting_is_listed(client):
    bad = {"noise_multiplier": -1, "max_grad_norm": 0, "stepz": 1}
    error = error_of(client.post(RUNS, json=bad), 422)
    assert set(error["fields"]) == set(bad)


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"noise_multiplier": 1.0, "target_epsilon": 2.0}, "noise_multiplier", "both"),
        ({"steps": 10, "epochs": 1.0}, "steps", "not both"),
        (
            {"dataset": "adult", "model": "cnn"},
            "model",
            "does not fit data set 'adult'",
        ),
        (OUT_OF_REACH, "target_epsilon", "must be at least"),
    ],
    ids=["sigma and epsilon", "steps and epochs", "cnn on adult", "out of reach"],
)
def test_settings_that_do_not_go_together(client, given, field, says):
    error_of(client.post(RUNS, json=given), 422, field, says)


def test_a_run_beyond_the_resource_bound_is_told_the_bound(make_app):
    app = make_app(run_cost=1e6)
    for answer in (
        app.test_client().post(RUNS, json=SMALL),
        app.test_client().get("/api/v1/privacy/plan", query_string=SMALL),
    ):
        error_of(answer, 422, "steps", "at most 1e+06 multiply-adds")


def test_over_quota_says_when_to_try_again(make_app):
    client = make_app(profile="public").test_client()
    for _ in range(3):
        assert client.post(RUNS, json=SMALL).status_code == 201
    answer = client.post(RUNS, json=SMALL)
    error = error_of(answer, 429)
    assert error["code"] == "over_quota"
    assert "3 launches in the queue" in error["message"]
    assert answer.headers["Retry-After"] == str(error["retry_after"])
    assert error["retry_after"] > 0


def test_the_local_profile_has_no_quota(client):
    answers = {client.post(RUNS, json=SMALL).status_code for _ in range(5)}
    assert answers == {201}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"{'steps': 1}",
        b'{"steps": 1}}',
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"seed": ' + b"9" * 5000 + b"}",
    ],
    ids=["cut", "empty", "quotes", "trailing", "not utf-8", "deep", "many digits"],
)
def test_broken_json(client, body):
    error = error_of(client.post(RUNS, data=body, content_type=JSON), 400)
    assert error["code"] == "bad_request"
    assert "not valid JSON" in error["message"]


@pytest.mark.parametrize("body", ["[]", "3", "null", '"text"'])
def test_json_that_is_not_an_object(client, body):
    error = error_of(client.post(RUNS, data=body, content_type=JSON), 422)
    assert "object of settings" in error["message"]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", None]
)
def test_a_wrong_content_type(client, kind):
    error = error_of(client.post(RUNS, data="{}", content_type=kind), 415)
    assert "application/json" in error["message"]


def test_a_large_body(client):
    body = json.dumps({"name": "x" * 2**20})
    error = error_of(client.post(RUNS, data=body, content_type=JSON), 413)
    assert "64 KB" in error["message"]


def test_a_body_of_undeclared_length(client):
    answer = client.post(
        RUNS,
        input_stream=io.BytesIO(b"{}"),
        content_type=JSON,
        headers={"Transfer-Encoding": "chunked"},
    )
    assert "Content-Length" in error_of(answer, 411)["message"]


def test_a_wrong_method_says_which_are_right(client):
    answer = client.put(RUNS, json={})
    error = error_of(answer, 405)
    assert error["code"] == "method_not_allowed"
    allowed = sorted(answer.headers["Allow"].split(", "))
    assert {"GET", "POST"} <= set(allowed)
    assert error["message"] == (
        f"PUT is not allowed at this address. Allowed: {', '.join(allowed)}."
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("PATCH", ""),
        ("POST", "/cancel"),
        ("POST", "/pause"),
        ("POST", "/step"),
        ("GET", "/events"),
        ("GET", "/events.json"),
        ("GET", "/export.csv"),
        ("GET", "/export.py"),
    ],
)
@pytest.mark.parametrize("run_id", ["nope", "%00", "..%2f", "%F0%9F%98%80", "x" * 3000])
def test_an_unknown_run(client, method, path, run_id):
    body = {"json": {"name": ""}} if method == "PATCH" else {}
    answer = client.open(f"{RUNS}/{run_id}{path}", method=method, **body)
    assert error_of(answer, 404)["code"] in ("run_not_found", "not_found")


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", "/api", "/nowhere", "/api/v1/runs/"]
)
def test_an_unknown_address(client, path):
    assert error_of(client.get(path), 404)["code"] == "not_found"


def test_a_failed_run_tells_reason_and_hint(client, store, run_id):
    fault = {"code": "diverged", "message": "the loss became infinite; lower the rate."}
    store.leases.finish(store.leases.claim(run_id), "failed", error=fault)
    answer = client.get(f"{RUNS}/{run_id}").json
    assert (answer["state"], answer["error"]) == ("failed", fault)


def test_a_full_disk_refuses_launches_and_goes_on_reading(client, store, run_id):
    engine = store.database.engine
    with store.database.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    engine.dispose()
    event.listen(
        engine, "connect", lambda c, _: c.execute(f"PRAGMA max_page_count={pages}")
    )
    answers = [client.post(RUNS, json=SMALL) for _ in range(60)]
    full = answers[-1]
    assert error_of(full, 507)["code"] == "storage_full"
    kept = [answer.json["id"] for answer in answers if answer.status_code == 201]
    listed = {run["id"] for run in client.get(RUNS).json["runs"]}
    assert listed == {run_id, *kept}
    assert client.get(f"{RUNS}/{run_id}/events.json").json["last_seq"] == 1


def test_a_locked_database_makes_a_launch_wait_while_reads_go_on(client, store, run_id):
    lock = sqlite3.connect(store.database.engine.url.database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    answers = []
    launch = threading.Thread(
        target=lambda: answers.append(client.post(RUNS, json=SMALL))
    )
    launch.start()
    assert client.application.test_client().get(f"{RUNS}/{run_id}").status_code == 200
    assert not answers
    lock.execute("COMMIT")
    lock.close()
    launch.join(PATIENCE_SECONDS)
    assert answers[0].status_code == 201


def test_a_database_that_stays_locked_asks_to_come_back(client, settings, store):
    store.database.close()
    store.database = Database(settings.database_url, patience_s=0.1)
    engine = store.database.engine
    engine.dispose()
    event.listen(engine, "connect", lambda c, _: c.execute("PRAGMA busy_timeout=20"))
    lock = sqlite3.connect(engine.url.database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    answer = client.post(RUNS, json=SMALL)
    lock.close()
    error = error_of(answer, 503)
    assert error["code"] == "storage_busy"
    assert answer.headers["Retry-After"] == str(error["retry_after"])
