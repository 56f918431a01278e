"""The pages of classes, for members and for other visitors."""

import pytest

from tests.web.classes.test_api import CLASSES, code, join, launch
from tests.web.conftest import SMALL, ended, recorded_events

HTML = {"Accept": "text/html"}


@pytest.fixture
def made(client):
    return client.post(CLASSES, json={"name": "<b>Physics</b>"}).json


@pytest.fixture
def student(app, made):
    student = app.test_client()
    join(student, made, nickname="<i>Ann</i>")
    return student


def entrance(made, role="student"):
    return f"/class/{code(made, role)}/"


def test_the_form_takes_a_set_up_from_the_address(client, made):
    page = client.get("/classes/?setup=/train/?seed=3").text
    assert 'value="/train/?seed=3"' in page
    assert "&lt;b&gt;Physics" in page
    assert "/classes/" in client.get("/teach/").text


def test_a_link_says_what_is_kept_and_who_sees_it_before_one_joins(app, made):
    page = app.test_client().get(entrance(made), headers=HTML)
    assert page.status_code == 200
    assert "Everyone in the class sees" in page.text
    assert "Stored here" in page.text
    assert "The class can launch 1,000 runs together" in page.text
    assert "Set-Cookie" not in page.headers
    assert page.headers["Cache-Control"] == "no-store"
    assert '<meta name="referrer" content="no-referrer">' in page.text


def test_who_is_in_the_class_is_led_to_it(client, made, student):
    for one in (client, student):
        answer = one.get(entrance(made))
        assert (answer.status_code, answer.location) == (302, made["links"]["page"])
    assert "Teach in this browser" in student.get(entrance(made, "teacher")).text


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/class/none/", 404, "Request the link from your teacher"),
        ("/classes/none/", 404, "open the complete link from your teacher"),
        ("/classes/none/roster/", 404, "open the complete link"),
    ],
)
def test_a_wrong_address_says_what_to_do(client, address, status, says):
    answer = client.get(address, headers=HTML)
    assert (answer.status_code, answer.mimetype) == (status, "text/html")
    assert says in answer.text


def test_a_class_that_is_over_says_so_to_all(app, client, made, student):
    client.post(f"{made['links']['self']}/close")
    gone = app.test_client().get(entrance(made), headers=HTML)
    assert gone.status_code == 410
    assert "Request the link of another class from your teacher" in gone.text
    page = student.get(made["links"]["page"]).text
    assert "This class is over" in page
    assert "Launch for this class" not in page
    of_class = f"/train/?class_id={made['id']}"
    assert "the class is over" in student.get(of_class, headers=HTML).text


def test_the_roster_has_each_run_newest_first(client, made, student, store):
    first = launch(student, made, name="first").json["id"]
    ended(store, first, recorded_events())
    second = launch(client, made, max_grad_norm=2.0).json["id"]
    page = client.get(made["links"]["page"]).text
    assert page.index(second) < page.index(first)
    assert "&lt;i&gt;Ann" in page
    assert "C 2" in page
    assert "84.0 %" in page
    part = client.get(f"/classes/{made['id']}/roster/").text
    assert first in part
    assert "<html" not in part


def test_a_run_is_named_by_its_differences_from_the_set_up(app, client):
    setup = "?" + "&".join(f"{name}={value}" for name, value in SMALL.items())
    made = client.post(CLASSES, json={"name": "Physics", "setup": setup}).json
    launch(client, made, learning_rate=7.0)
    names = client.get(made["links"]["page"]).text
    assert "· η 7</a>" in names


def test_what_only_a_teacher_does_is_offered_to_no_student(client, made, student):
    taught = client.get(made["links"]["page"]).text
    joined = student.get(made["links"]["page"]).text
    for words in ("Link for students", "Close it", "Delete it"):
        assert words in taught
        assert words not in joined
    assert "Leave it" in joined
    assert code(made)[12:] not in joined


def test_the_trainer_launches_for_the_class_of_its_address(app, made, student):
    address = f"/train/?class_id={made['id']}"
    page = student.get(address, headers=HTML).text
    assert "&lt;b&gt;Physics" in page
    assert f'"labels":{{"class_id":"{made["id"]}"}}' in page
    assert "There is no setting" not in page
    assert "Sweep a setting" not in page
    stranger = app.test_client().get(address, headers=HTML).text
    assert "You are not a member of this class" in stranger
    assert "&lt;b&gt;Physics" not in stranger


def test_who_is_in_a_class_can_delete_all_data_without_a_run(client, made, student):
    assert "your membership in 1 class," in student.get("/runs/").text
    assert student.post("/runs/forget").status_code == 200
    assert "0 students" in client.get(made["links"]["page"]).text
    assert "Delete all my data" not in student.get("/runs/").text
