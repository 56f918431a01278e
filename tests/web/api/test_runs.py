"""Launching, reading and ending runs, and who may do what."""

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.kinds import LAUNCHED
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.api.exports import FORMATS
from dpsgd_explorer.web.run_views.models import EXPORT_FORMATS, ORDERS
from tests.web.conftest import SMALL, error_of

RUNS = "/api/v1/runs"


def test_a_launch_answers_where_the_run_is(client):
    answer = client.post(RUNS, json=SMALL)
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"{RUNS}/{answer.json['id']}"
    assert client.get(answer.headers["Location"]).json == answer.json
    assert (answer.json["state"], answer.json["queue_position"]) == ("queued", 1)
    assert answer.json["mine"] is True


def test_no_settings_are_the_default_run(client):
    config = client.post(RUNS, json={}).json["config"]
    assert config == TrainingConfig().model_dump(mode="json")


def test_the_stored_settings_are_those_that_came(client, store):
    given = SMALL | {"name": "Füchse & <b>", "group": "g1", "seed": 3}
    answer = client.post(RUNS, json=given).json
    assert {name: answer["config"][name] for name in SMALL} == SMALL
    assert not {"name", "group", "parent"} & set(answer["config"])
    run = store.get(answer["id"])
    assert (run.name, run.group) == ("Füchse & <b>", "g1")
    assert TrainingConfig.parse(run.config).seed == 3


def test_a_launch_rings_for_a_worker(app, client):
    huey = app.extensions["doorbell"].huey
    before = huey.pending_count()
    client.post(RUNS, json=SMALL)
    assert huey.pending_count() == before + 1


def test_a_run_names_the_one_it_repeats(client, run_id):
    answer = client.post(RUNS, json=SMALL | {"parent": run_id})
    assert answer.json["parent"] == run_id


def test_a_visitor_lists_their_own_runs_newest_first(client, other_visitor):
    ids = [client.post(RUNS, json=SMALL).json["id"] for _ in range(3)]
    assert [run["id"] for run in client.get(RUNS).json["runs"]] == ids[::-1]
    assert other_visitor.get(RUNS).json == {"runs": []}


def test_whoever_has_the_link_may_read(other_visitor, finished):
    answer = other_visitor.get(f"{RUNS}/{finished}").json
    assert (answer["state"], answer["mine"]) == ("done", False)


def test_nobody_is_told_whose_a_run_is(client, store, finished):
    visitor = store.get(finished).visitor
    for path in ("", "/events.json", "/export.json", "/export.html", "/export.py"):
        assert visitor not in client.get(f"{RUNS}/{finished}{path}").text


def test_an_epsilon_that_was_spent_comes_with_its_terms(client, finished):
    privacy = client.get(f"{RUNS}/{finished}").json["privacy"]
    assert privacy == {
        "epsilon": 1.0,  # 0.99999 rounded up at the fourth decimal
        "epsilon_text": "1.00",
        "delta": 1e-5,
        "neighboring_relation": "add_or_remove_one",
        "sampling": "poisson",
        "accountant": "exact",
        "status": "exact",
    }


def test_a_queued_run_is_stopped_by_its_visitor(client, run_id):
    answer = client.post(f"{RUNS}/{run_id}/cancel")
    assert (answer.status_code, answer.json["state"]) == (200, "cancelled")
    events = client.get(f"{RUNS}/{run_id}/events.json").json["events"]
    assert events[-1]["data"] == {"state": "cancelled"}


def test_a_running_run_is_asked_to_stop(client, store, run_id):
    claim = store.leases.claim(run_id)
    assert client.post(f"{RUNS}/{run_id}/cancel", json={}).status_code == 200
    assert store.leases.order(claim) == "cancel"


def test_a_running_run_is_paused_stepped_and_resumed(client, store, run_id):
    claim = store.leases.claim(run_id)

    def post(order):
        answer = client.post(f"{RUNS}/{run_id}/{order}")
        assert answer.status_code == 200
        return answer.json["state"]

    assert post("pause") == "running"  # until its process has ended the step
    assert store.leases.pause(claim, 0)
    assert post("step") == "paused"
    assert store.leases.orders(claim).until_step == 1
    assert store.leases.go_on(claim)
    assert store.leases.pause(claim, 1)
    assert store.leases.leave(claim, 1)
    assert post("resume") == "queued"
    assert client.get(f"{RUNS}/{run_id}").json["queue_position"] == 1


def test_a_change_is_an_order_until_its_phase_is_stored(client, store, run_id):
    claim = store.leases.claim(run_id)

    def post(**values):
        return client.post(f"{RUNS}/{run_id}/change", json=values)

    assert post(learning_rate=2.0).status_code == 200
    assert post(max_grad_norm=0.3).status_code == 200
    asked = {"learning_rate": 2.0, "max_grad_norm": 0.3}
    assert store.leases.orders(claim).changes == asked
    applied = {"step": 1, "changes": {"learning_rate": 2.0}}
    store.leases.append(claim, [Event("phase", applied)])
    assert store.leases.orders(claim).changes == {"max_grad_norm": 0.3}
    assert error_of(post(max_grad_norm=-1.0), 422)["field"] == "max_grad_norm"
    assert error_of(post(noise_multiplier=2.0), 422)["field"] == "noise_multiplier"
    store.leases.finish(claim, "done")
    assert "has ended" in error_of(post(learning_rate=1.0), 422)["message"]


def test_only_its_visitor_changes_settings(client, other_visitor, run_id):
    other_visitor.post(RUNS, json=SMALL)
    body = {"learning_rate": 2.0}
    error_of(other_visitor.post(f"{RUNS}/{run_id}/change", json=body), 404)


def test_a_run_gets_another_name(client, run_id):
    answer = client.patch(f"{RUNS}/{run_id}", json={"name": "first try"})
    assert answer.json["name"] == "first try"
    assert client.get(f"{RUNS}/{run_id}").json["name"] == "first try"


def test_note_and_star_change_alone_and_are_listed(client, run_id):
    client.patch(f"{RUNS}/{run_id}", json={"name": "first try"})
    client.patch(f"{RUNS}/{run_id}", json={"note": "two\nlines", "starred": True})
    [listed] = client.get(RUNS).json["runs"]
    found = {name: listed[name] for name in ("name", "title", "note", "starred")}
    assert found == {
        "name": "first try",
        "title": "first try",
        "note": "two\nlines",
        "starred": True,
    }
    client.patch(f"{RUNS}/{run_id}", json={"name": ""})
    assert (
        client.get(f"{RUNS}/{run_id}").json["title"].startswith("Adult income, ε = 1")
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": None}, "name"),
        ({"name": 5}, "name"),
        ({"starred": 1}, "starred"),
        ({"note": "x" * 501}, "note"),
        ({"state": "done"}, "state"),
    ],
    ids=str,
)
def test_a_bad_label_is_named(client, run_id, body, field):
    error_of(client.patch(f"{RUNS}/{run_id}", json=body), 422, field)


def test_a_deleted_run_is_restored_by_its_visitor_alone(
    client, other_visitor, finished
):
    before = client.get(f"{RUNS}/{finished}").json
    client.delete(f"{RUNS}/{finished}")
    other_visitor.post(RUNS, json=SMALL)
    error_of(other_visitor.post(f"{RUNS}/{finished}/restore"), 404)
    assert client.post(f"{RUNS}/{finished}/restore").json == before
    error_of(client.post(f"{RUNS}/{finished}/restore"), 404)


def test_all_data_are_deleted_and_counted(client, other_visitor, run_id):
    client.post(RUNS, json=SMALL | {"group": "one"})
    client.post(RUNS, json=SMALL | {"group": "one"})
    theirs = other_visitor.post(RUNS, json=SMALL).json["id"]
    answer = client.delete(RUNS)
    assert answer.json == {"runs": 3, "launches": 2}
    assert client.get(RUNS).json == {"runs": []}
    assert client.get_cookie("dpsgd_visitor") is None
    error_of(client.get(f"{RUNS}/{run_id}"), 404)
    assert other_visitor.get(f"{RUNS}/{theirs}").status_code == 200
    assert client.delete(RUNS).json == {"runs": 0, "launches": 0}


def test_a_run_is_deleted_with_its_log(client, finished):
    answer = client.delete(f"{RUNS}/{finished}")
    assert (answer.status_code, answer.data) == (204, b"")
    error_of(client.get(f"{RUNS}/{finished}"), 404)
    error_of(client.get(f"{RUNS}/{finished}/events.json"), 404)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "", None),
        ("PATCH", "", {"name": "x"}),
        *(("POST", f"/{order}", None) for order in ORDERS),
    ],
    ids=["delete", "rename", *ORDERS],
)
def test_only_its_visitor_may_change_a_run(
    client, other_visitor, run_id, method, path, body
):
    other_visitor.post(RUNS, json=SMALL)  # known, but someone else
    before = client.get(f"{RUNS}/{run_id}").json
    for other in (other_visitor, client.application.test_client()):
        error_of(other.open(f"{RUNS}/{run_id}{path}", method=method, json=body), 404)
    assert client.get(f"{RUNS}/{run_id}").json["state"] == before["state"]


def test_links_lead_somewhere(client, finished):
    links = client.get(f"{RUNS}/{finished}").json["links"]
    assert len(links) == 10 + len(ORDERS) + len(FORMATS)
    for name, link in links.items():
        if name not in (*ORDERS, "change", "continue", "page", "price"):
            assert client.get(link, buffered=False).status_code == 200, name


def test_only_a_training_has_a_link_to_the_trainer(client, finished):
    """The trainer and its pinned curves open no run without it."""
    links = client.get(f"{RUNS}/{finished}").json["links"]
    assert links["trainer"] == f"/train/#run={finished}"
    for name in LAUNCHED.keys() - {"training"}:
        answer = client.post(RUNS, json={"kind": name}).json
        assert "trainer" not in answer["links"], name


def test_links_name_every_export():
    assert set(EXPORT_FORMATS) == set(FORMATS)


def test_the_day_has_a_limit_in_the_public_profile(make_app):
    app = make_app(profile="public")
    client, store = app.test_client(), app.extensions["run_store"]
    for _ in range(20):
        run = client.post(RUNS, json=SMALL).json["id"]
        client.delete(f"{RUNS}/{run}")  # deleting gives no new launch
    answer = client.post(RUNS, json=SMALL)
    assert error_of(answer, 429)["retry_after"] > 3600
    assert store.counts()["queued"] == 0
    assert app.test_client().post(RUNS, json=SMALL).status_code == 201


def test_launches_without_a_cookie_are_counted_by_network(make_app):
    queue = ("DPSGD_QUOTA_QUEUED_IN_ALL", "40")
    app = make_app(profile="public", own_quotas=(queue,))

    def launch(address):
        visitor = app.test_client()
        from_there = {"REMOTE_ADDR": address}
        return visitor.post("/api/v1/runs", json=SMALL, environ_base=from_there)

    codes = [launch(f"192.0.2.{number}").status_code for number in range(11)]
    assert codes == [201] * 10 + [429]
    assert "192.0.2.0/24" in launch("192.0.2.99").json["error"]["message"]
    assert launch("198.51.100.1").status_code == 201
    assert launch("127.0.0.1").status_code == 201


def test_a_group_in_public_ends_at_its_size(make_app):
    client = make_app(profile="public").test_client()
    codes = [
        client.post("/api/v1/runs", json=SMALL | {"group": "mine"}).status_code
        for _ in range(21)
    ]
    assert codes == [201] * 20 + [429]


def test_the_place_in_line_that_is_shown_is_the_one_that_comes_true(
    client, other_visitor, store
):
    for _ in range(4):
        client.post("/api/v1/runs", json=SMALL)
    running = store.leases.claim()
    mine = other_visitor.post("/api/v1/runs", json=SMALL).json
    assert other_visitor.get(mine["links"]["self"]).json["queue_position"] == 1
    store.leases.finish(running, "done")
    assert store.leases.claim().run_id == mine["id"]
