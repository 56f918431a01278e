"""Classes over the real routes: joined by secret links, left, closed, deleted."""

import csv
import io
import logging

import pytest

from tests.web.conftest import SMALL, ended, error_of, recorded_events

CLASSES = "/api/v1/classes"
RUNS = "/api/v1/runs"


@pytest.fixture
def made(client):
    """A class of ``client``, with its links."""
    return client.post(CLASSES, json={"name": "Physics"}).json


def code(made, role="student"):
    return made["links"][role].rstrip("/").rsplit("/", 1)[1]


def join(client, made, **said):
    return client.post(f"{CLASSES}/join", json={"code": code(made)} | said)


@pytest.fixture
def student(app, made):
    """A student of the class, called Ann."""
    student = app.test_client()
    assert join(student, made, nickname="Ann").status_code == 200
    return student


def launch(client, made, **settings):
    return client.post(RUNS, json={**SMALL, "class_id": made["id"], **settings})


def listed(client, made):
    """The rows of the class's roster, by the id of the run."""
    text = client.get(made["links"]["roster"]).text
    return {row["run_id"]: row for row in csv.DictReader(io.StringIO(text))}


def test_a_class_is_made_and_its_teacher_has_both_links(client, made):
    answer = client.post(CLASSES, json={"name": "Maths"})
    assert answer.status_code == 201
    shown = client.get(answer.headers["Location"]).json
    assert shown == answer.json
    assert (shown["launches"], shown["launched"]) == (1000, 0)
    assert shown["is_teacher"]
    assert code(shown, "student") != code(shown, "teacher")
    assert [one["name"] for one in client.get(CLASSES).json["classes"]] == [
        "Maths",
        "Physics",
    ]


def test_a_student_joins_launches_and_is_on_the_roster(app, client, made, student):
    run_id = launch(student, made, name="first").json["id"]
    other = launch(student, made, max_grad_norm=2.0, engine="vmap").json["id"]
    rows = listed(client, made)
    assert set(rows) == {run_id, other}
    assert (rows[run_id]["student"], rows[run_id]["state"]) == ("Ann", "queued")
    assert rows[other]["max_grad_norm"] == "2.0"
    own = student.get(made["links"]["self"]).json
    assert own["launched"] == 2
    assert not {"student", "teacher"} & set(own["links"])


def test_the_log_has_the_events_of_all_its_runs(client, made, student, store):
    first, second = (launch(student, made).json["id"] for _ in range(2))
    own = student.post(RUNS, json=SMALL).json["id"]
    for run_id in (first, second, own):
        ended(store, run_id, recorded_events())
    log = client.get(made["links"]["log"]).json
    assert {event["run_id"] for event in log["events"]} == {first, second}
    assert {event["kind"] for event in log["events"]} <= {
        "state",
        "phase",
        "evaluation",
        "end",
    }
    last = log["events"][-1]["id"]
    later = client.get(made["links"]["log"], query_string={"after": last}).json
    assert later == {"version": log["version"], "is_over": False, "events": []}
    launch(student, made)
    assert client.get(made["links"]["log"]).json["version"] > log["version"]


def test_a_roster_is_a_table_that_no_spreadsheet_executes(
    app, client, made, student, store
):
    mallory = app.test_client()
    join(mallory, made, nickname="=1+1")
    launch(mallory, made, name="@SUM(A1)")
    run_id = launch(student, made).json["id"]
    ended(store, run_id, recorded_events())
    answer = client.get(made["links"]["roster"])
    assert answer.mimetype == "text/csv"
    assert "attachment" in answer.headers["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    head = answer.text.splitlines()[0].split(",")
    assert len(set(head)) == len(head)
    by_run = {row["run_id"]: row for row in rows}
    done = by_run.pop(run_id)
    assert (done["student"], done["state"], done["dataset"]) == ("Ann", "done", "adult")
    assert float(done["epsilon"]) >= 0.99999
    assert done["neighboring_relation"] == "add_or_remove_one"
    assert float(done["test_accuracy"]) == 0.84
    [other] = by_run.values()
    assert (other["student"], other["name"]) == ("'=1+1", "'@SUM(A1)")


@pytest.mark.parametrize(
    ("field", "change", "says"),
    [
        ("name", {"name": ""}, "must not be empty"),
        ("name", {"name": "x" * 61}, "60 printable"),
        ("name", {"name": "\ud800"}, "printable"),
        ("setup", {"setup": "https://example.org/"}, "copied from the trainer"),
        ("setup", {"setup": "?delta=2"}, "delta"),
        ("setup", {"setup": "?hide=nothing"}, "hide must name controls"),
        ("teacher", {"teacher": "me"}, "teacher"),
    ],
)
def test_an_invalid_class_names_the_wrong_field(client, field, change, says):
    answer = client.post(CLASSES, json={"name": "Physics"} | change)
    error_of(answer, 422, field, says)
    assert client.get(CLASSES).json["classes"] == []


def test_a_set_up_is_where_students_begin(client):
    setup = "http://localhost/train/?dataset=adult&model=logistic&lock=seed&class_id=x"
    made = client.post(CLASSES, json={"name": "Physics", "setup": setup}).json
    begin = f"/train/?dataset=adult&model=logistic&lock=seed&class_id={made['id']}"
    assert made["links"]["train"] == begin
    page = client.get(begin, headers={"Accept": "text/html"}).text
    assert "You train for the class" in page
    assert "This link fixes" in page


@pytest.mark.parametrize(
    "wrong", ["", "x", "x" * 28, "\x00" * 28, "\ud800", "ä" * 28, "../../../" * 4]
)
def test_a_wrong_code_leads_nowhere(client, made, wrong):
    error_of(client.post(f"{CLASSES}/join", json={"code": wrong}), 404, says="no class")


def test_a_code_is_good_for_one_class_and_one_role(app, client, made):
    other = client.post(CLASSES, json={"name": "Maths"}).json
    mixed = made["id"] + code(other)[12:]
    stranger = app.test_client()
    error_of(stranger.post(f"{CLASSES}/join", json={"code": mixed}), 404)
    assert not join(stranger, made).json["is_teacher"]


def test_the_teachers_link_opens_the_class_in_another_browser(app, client, made):
    laptop = app.test_client()
    answer = laptop.post(f"{CLASSES}/join", json={"code": code(made, "teacher")})
    assert answer.json["is_teacher"]
    assert laptop.post(f"{made['links']['self']}/close").json["is_over"]
    error_of(join(app.test_client(), made), 410, says="was closed by its teacher")


@pytest.mark.parametrize("who", ["a student", "a stranger"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/close"),
        ("DELETE", ""),
        ("DELETE", "/students/1"),
    ],
)
def test_only_a_teacher_orders(app, client, made, student, who, method, path):
    launch(student, made)
    asks = student if who == "a student" else app.test_client()
    error_of(asks.open(made["links"]["self"] + path, method=method), 404)
    assert len(listed(client, made)) == 1
    assert not client.get(made["links"]["self"]).json["is_over"]


@pytest.mark.parametrize("path", ["", "/events.json", "/roster.csv"])
def test_only_members_read_a_class(app, made, path):
    stranger = app.test_client()
    error_of(stranger.get(made["links"]["self"] + path), 404)
    stranger.post(RUNS, json=SMALL)
    error_of(stranger.get(made["links"]["self"] + path), 404)


def test_a_launch_for_a_class_of_others_is_rejected(app, client, made, student, store):
    stranger = app.test_client()
    error_of(launch(stranger, made), 404)
    for wrong in ("x", "\x00", "\ud800"):
        error_of(launch(student, {"id": wrong}), 404)
    assert store.counts()["queued"] == 0
    client.post(f"{made['links']['self']}/close")
    error_of(launch(student, made), 410, says="from your teacher")


def test_a_quota_that_is_used_up_says_what_to_do(app, client, monkeypatch):
    monkeypatch.setattr("dpsgd_explorer.runs.classes.classes.LAUNCHES", 1)
    made = client.post(CLASSES, json={"name": "Physics"}).json
    student = app.test_client()
    join(student, made)
    assert launch(student, made).status_code == 201
    answer = launch(student, made)
    error_of(answer, 429, says="already launched 1 runs")
    assert int(answer.headers["Retry-After"]) > 0


def test_a_run_on_an_uploaded_table_is_for_no_class(app, client, made, monkeypatch):
    monkeypatch.setattr("dpsgd_explorer.web.api.runs.is_own", lambda _name: True)
    error_of(launch(client, made), 422, "class_id", "the class would see the run")


def test_leaving_removing_and_deleting_keep_the_runs(app, client, made, student):
    run_id = launch(student, made).json["id"]
    address = made["links"]["self"]
    assert student.post(f"{address}/leave").status_code == 204
    assert listed(client, made) == {}
    error_of(client.post(f"{address}/leave"), 422, says="Close the class")
    other = app.test_client()
    join(other, made)
    removed = launch(other, made).json["id"]
    assert client.delete(f"{address}/students/2").status_code == 204
    assert listed(client, made) == {}
    error_of(join(other, made), 404, says="removed you")
    assert client.delete(address).status_code == 204
    error_of(client.get(address), 404)
    for who, own in ((student, run_id), (other, removed)):
        assert [run["id"] for run in who.get(RUNS).json["runs"]] == [own]


def test_deleting_all_data_removes_a_student_from_the_roster(client, made, student):
    launch(student, made)
    assert student.delete(RUNS).status_code == 200
    assert listed(client, made) == {}
    assert client.get(made["links"]["self"]).json["launched"] == 1


def test_no_line_of_the_log_has_a_code(app, client, made, student, caplog):
    with caplog.at_level(logging.DEBUG):
        student.get(made["links"]["student"])
        join(app.test_client(), made)
    assert code(made) not in caplog.text


def test_nothing_of_a_code_is_stored(made, store):
    with store.database.read() as connection:
        text = str(connection.exec_driver_sql("SELECT * FROM classes").all())
    assert made["id"] in text
    for role in ("student", "teacher"):
        assert code(made, role)[12:] not in text


def test_a_fixed_address_below_the_classes_is_no_class(client):
    answer = client.options(f"{CLASSES}/join")
    assert set(answer.headers["Allow"].split(", ")) == {"OPTIONS", "POST"}


def test_students_see_only_themselves_if_the_teacher_chose_it(app, client):
    made = client.post(CLASSES, json={"name": "Physics", "shares_runs": False}).json
    ann, bob = app.test_client(), app.test_client()
    join(ann, made, nickname="Ann Smith")
    answer = join(bob, made, nickname="Bob Jones")
    assert "Ann Smith" not in answer.text
    ids = {
        name: launch(who, made).json["id"]
        for name, who in (("ann", ann), ("bob", bob), ("teacher", client))
    }
    links = [made["links"][name] for name in ("self", "log", "roster", "page")]
    links += [f"{made['links']['page']}roster/", CLASSES, "/classes/"]
    for who, own, other in ((ann, "ann", "bob"), (bob, "bob", "ann")):
        texts = [who.get(link).text for link in links]
        assert not [text for text in texts if ids[other] in text]
        assert not [
            text for text in texts if {"ann": "Ann S", "bob": "Bob J"}[other] in text
        ]
        assert set(listed(who, made)) == {ids[own], ids["teacher"]}
        assert ids[own] in texts[1]
        assert ids[own] in texts[3]
    assert set(listed(client, made)) == set(ids.values())
    page = client.get(made["links"]["page"]).text
    assert "Ann Smith" in page
    assert "Bob Jones" in page


def test_a_class_shares_its_runs_by_default(client, made):
    assert made["shares_runs"] is True
    assert client.get(made["links"]["self"]).json["shares_runs"] is True


def test_links_that_were_replaced_in_an_earlier_version_keep_working(
    app, client, made, store
):
    """The number of the valid links is part of every code."""
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE classes SET links = 3")
    error_of(join(app.test_client(), made), 404)
    valid = client.get(made["links"]["self"]).json
    assert join(app.test_client(), valid).status_code == 200
