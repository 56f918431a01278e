"""The metrics of a site: from one database, whichever process is asked."""

import dataclasses
import re

import pytest

from dpsgd_explorer.runs.operation.workers import WorkerSign
from tests.web.conftest import SMALL, application, ended, error_of, recorded_events

TOKEN = "k7Zp-2vQx9_LmN4tR8wA"
PROXIED = [{"X-Forwarded-For": "192.0.2.7"}, {"Forwarded": "for=192.0.2.7"}]


def metrics_of(client, **options):
    """The samples of an answer by name and labels."""
    answer = client.get("/metrics", **options)
    assert answer.status_code == 200, answer.text
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines)}


@pytest.fixture
def fellow(settings, app):
    """Another web process of the same site."""
    with application(settings) as other:
        yield other.test_client()


def test_every_process_reports_the_same_of_the_site(client, fellow, store, run_id):
    ended(store, run_id, recorded_events())
    waiting = client.post("/api/v1/runs", json=SMALL).json["id"]
    lost = store.leases.claim(waiting)
    store.leases.release(lost, lost=True)
    WorkerSign(store.database, 3, clock=store.clock).tend(1)

    here, there = metrics_of(client), metrics_of(fellow)
    of_site = {name for name in here if not name.startswith(OWN)}
    aged = {"dpsgd_queue_oldest_seconds"}
    assert {name: here[name] for name in of_site - aged} == {
        name: there[name] for name in of_site - aged
    }
    expected = {
        "dpsgd_database_up": 1,
        "dpsgd_queue_depth": 1,
        "dpsgd_queue_paused": 0,
        'dpsgd_runs_unfinished{state="running"}': 0,
        'dpsgd_runs_finished_total{kind="training",state="done"}': 1,
        "dpsgd_lease_losses_total": 1,
        "dpsgd_events_total": store.last_event_id(),
        "dpsgd_workers": 1,
        "dpsgd_worker_places": 3,
        "dpsgd_worker_places_busy": 1,
        "dpsgd_listeners": 0,
    }
    assert {name: here[name] for name in expected} == expected
    assert 0 <= here["dpsgd_queue_oldest_seconds"] < 3600


OWN = ("dpsgd_request", "process_")


def test_counters_do_not_fall_when_runs_are_deleted(client, store, run_id):
    ended(store, run_id, recorded_events())
    before = metrics_of(client)
    store.delete_ended(store.clock() + 1, 10)
    assert store.counts()["done"] == 0
    after = metrics_of(client)
    totals = [n for n in before if n.endswith("_total") or "_total{" in n]
    of_site = [name for name in totals if not name.startswith(OWN)]
    assert len(of_site) == 3
    assert [after[name] for name in of_site] == [before[name] for name in of_site]


def test_requests_are_timed_by_endpoint(client, run_id):
    client.get(f"/api/v1/runs/{run_id}")
    client.get("/nowhere")
    seen = metrics_of(client)
    assert seen['dpsgd_request_seconds_count{endpoint="runs_api.show"}'] == 1
    assert seen['dpsgd_requests_total{endpoint="none",status="404"}'] == 1
    buckets = [n for n in seen if re.match(r"dpsgd_request_seconds_bucket.*none", n)]
    assert [seen[name] for name in buckets] == sorted(seen[name] for name in buckets)
    assert seen[buckets[-1]] == 1


def test_a_stream_is_counted_as_long_as_it_is_open(client, run_id):
    stream = client.get(f"/api/v1/runs/{run_id}/events", buffered=False)
    assert metrics_of(client)["dpsgd_listeners"] == 1
    stream.close()
    assert metrics_of(client)["dpsgd_listeners"] == 0


def test_a_database_that_cannot_be_read_is_a_metric(client, store):
    with store.database.write() as connection:
        connection.exec_driver_sql("DROP TABLE runs")
    seen = metrics_of(client)
    assert seen["dpsgd_database_up"] == 0
    assert "dpsgd_queue_depth" not in seen


def test_a_proxy_on_this_machine_does_not_open_it(client):
    for headers in PROXIED:
        error_of(client.get("/metrics", headers=headers), 404)


def test_other_machines_see_no_page(client):
    for address in ("192.0.2.7", "10.0.0.1", "fd00::1", "", "::2"):
        peer = {"REMOTE_ADDR": address}
        answer = client.get("/metrics", environ_overrides=peer)
        nowhere = client.get("/nowhere", environ_overrides=peer)
        error_of(answer, 404)
        assert answer.data == nowhere.data
    metrics_of(client, environ_overrides={"REMOTE_ADDR": "::1"})


def test_a_token_opens_it_to_other_machines(make_app, settings):
    operation = dataclasses.replace(settings.operation, metrics_token=TOKEN)
    client = make_app(operation=operation).test_client()
    peer = {"environ_overrides": {"REMOTE_ADDR": "192.0.2.7"}}
    assert metrics_of(client, headers={"Authorization": f"Bearer {TOKEN}"}, **peer)
    for sent in ("", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer é"):
        error_of(client.get("/metrics", headers={"Authorization": sent}, **peer), 404)
