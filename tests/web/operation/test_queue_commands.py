"""``queue`` and ``runs``: the operator reads a site and acts on its queue."""

import re

import pytest

from dpsgd_explorer.cli.main import FAILED, REFUSED, main
from dpsgd_explorer.runs.operation.workers import WorkerSign
from tests.web.conftest import SMALL

RUNS = "/api/v1/runs"


@pytest.fixture
def command(store, settings, monkeypatch, capsys):
    """Return a function that runs a command on the site and returns its output."""
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(settings.instance_dir))

    def run(*words):
        assert main([*words]) == 0
        return capsys.readouterr().out

    return run


def test_a_paused_queue_starts_nothing_until_it_is_resumed(
    command, client, store, run_id
):
    assert "No run starts until the queue is resumed" in command("queue", "pause")
    command("queue", "pause")  # a second time changes nothing
    assert store.leases.claim() is None
    assert client.get(f"{RUNS}/{run_id}").json["queue_paused"] is True
    assert "Queue: paused since" in command("queue", "status")
    assert command("queue", "resume") == "Runs start again.\n"
    assert client.get(f"{RUNS}/{run_id}").json["queue_paused"] is False
    assert "Queue: no worker was seen lately" in command("queue", "status")
    WorkerSign(store.database, 1, clock=store.clock).tend(0)
    assert "Queue: runs start as places become free" in command("queue", "status")
    assert store.leases.claim().run_id == run_id


def test_a_visitor_reads_that_the_operator_ended_the_run(
    command, client, store, run_id
):
    running = client.post(RUNS, json=SMALL).json["id"]
    claim = store.leases.claim(running)
    assert command("runs", "end", run_id) == f"run {run_id}: cancelled\n"
    assert command("runs", "end", running) == f"run {running}: its worker ends it\n"
    assert store.leases.order(claim) == "cancel"
    store.leases.finish(claim, "cancelled")
    for stopped in (run_id, running):
        run = client.get(f"{RUNS}/{stopped}").json
        assert run["state"] == "cancelled"
        assert run["error"] == {
            "code": "ended_by_operator",
            "message": "the operator of this site ended the run.",
        }
        last = client.get(f"{RUNS}/{stopped}/events.json").json["events"][-1]
        assert last["data"]["error"] == run["error"]


def test_a_run_that_had_ended_stays_as_it_was(command, client, run_id, capsys):
    client.post(f"{RUNS}/{run_id}/cancel")
    assert command("runs", "end", run_id) == f"run {run_id}: cancelled\n"
    assert client.get(f"{RUNS}/{run_id}").json["error"] is None
    assert main(["runs", "end", "nowhere"]) == FAILED
    assert "there is no run nowhere on this site" in capsys.readouterr().err
    for wrong in ("\udcff", "a" * 5000, "a b"):
        assert main(["runs", "end", wrong]) == REFUSED
        assert capsys.readouterr().err.startswith("runs: ID must be the id of a run")


def test_status_shows_workers_runs_and_visitors_but_no_name(command, client, store):
    named = client.post(RUNS, json={"name": "thesis of Ann", **SMALL}).json["id"]
    client.post(RUNS, json=SMALL)
    store.leases.claim(named)
    WorkerSign(store.database, 3, clock=store.clock).tend(1)
    shown = command("queue", "status")
    assert "thesis" not in shown
    assert store.get(named).visitor not in shown
    assert re.search(rf"{named} +training +running +0 of 4 ", shown)
    assert re.search(r"\n  [0-9a-f]{8} +2 +1 +1\n", shown)
    assert re.search(r"\n  \S+ +\S+ +1 +3 +\S+ \S+Z +0 s ago\n", shown)
    assert "1 queued, the oldest for" in shown
    assert "1 training, 0 paused" in shown


def test_an_empty_site_has_nothing(command):
    shown = command("queue", "status")
    assert "0 queued\n" in shown
    for title in ("Workers", "Unfinished runs", "Busiest visitors, last 24 hours"):
        assert f"{title}: none" in shown
