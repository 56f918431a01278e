"""The operator's page: what it shows and does, and that others see no page."""

import dataclasses
import re

import pytest

from dpsgd_explorer.cli.main import REFUSED, main
from dpsgd_explorer.runs.operation.workers import WorkerSign
from dpsgd_explorer.web.operation import gate
from tests.web.conftest import SMALL

TOKEN = "k7Zp-2vQx9_LmN4tR8wA"
RUNS = "/api/v1/runs"
PAGE = {"Accept": "text/html"}
ADDRESSES = (
    "/admin",
    "/admin/",
    "/admin/queue/pause",
    "/admin/runs/some/end",
    "/admin/enter/guessed",
    "/admin/nowhere",
    "/admin/leave",
)


@pytest.fixture
def with_token(settings):
    return dataclasses.replace(settings.operation, admin_token=TOKEN)


@pytest.fixture
def app(make_app, with_token):
    return make_app(operation=with_token)


@pytest.fixture
def operator(app):
    """A browser that came by the link."""
    browser = app.test_client()
    link = f"/admin/enter/{gate.sign(TOKEN, gate.LINK)}"
    assert browser.get(link).status_code == 200
    answer = browser.post(link)
    assert (answer.status_code, answer.location) == (303, "/admin/")
    return browser


def text_of(answer):
    assert answer.status_code == 200, answer.text
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


def assert_no_page(client, method, path, **options):
    """It is answered as an address is that nothing is at."""
    answer = client.open(path, method=method, headers=PAGE, **options)
    nothing = client.open("/nowhere", method=method, headers=PAGE, **options)
    assert answer.status_code == nothing.status_code == 404
    assert answer.data == nothing.data
    assert dict(answer.headers) == dict(nothing.headers)


def test_others_see_no_page_whatever_they_ask(client):
    for method in ("GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE"):
        for path in ADDRESSES:
            assert_no_page(client, method, path)


def test_without_a_token_there_is_no_operator(make_app):
    client = make_app().test_client()
    client.set_cookie(gate.COOKIE, gate.sign("", gate.SESSION), path=gate.PATH)
    for path in (*ADDRESSES, f"/admin/enter/{gate.sign('', gate.LINK)}"):
        assert_no_page(client, "GET", path)
    bearer = PAGE | {"Authorization": "Bearer "}
    assert client.get("/admin/", headers=bearer).status_code == 404


WRONG = {
    "of another token": gate.sign(f"{TOKEN}x", gate.SESSION),
    "a link's": gate.sign(TOKEN, gate.LINK),
    "cut": gate.sign(TOKEN, gate.SESSION)[:-1],
    "the token": TOKEN,
    "unsigned": "operator",
}


def test_a_link_works_once(app):
    """Whoever finds it in a history or a log is not let in."""
    link = f"/admin/enter/{gate.sign(TOKEN, gate.LINK)}"
    first, second = app.test_client(), app.test_client()
    assert first.post(link).status_code == 303
    assert_no_page(second, "POST", link)
    assert first.get("/admin/", headers=PAGE).status_code == 200
    assert_no_page(second, "GET", "/admin/")


@pytest.mark.parametrize("sent", [TOKEN, f"Basic {TOKEN}", f"Bearer{TOKEN}", "Bearer "])
def test_a_token_without_its_scheme_opens_nothing(client, sent):
    answer = client.get("/admin/", headers=PAGE | {"Authorization": sent})
    assert answer.status_code == 404
    good = PAGE | {"Authorization": f"bearer {TOKEN}"}
    assert client.get("/admin/", headers=good).status_code == 200


def test_a_wrong_cookie_opens_nothing(client):
    for cookie in WRONG.values():
        client.set_cookie(gate.COOKIE, cookie, path=gate.PATH)
        assert_no_page(client, "GET", "/admin/")


@pytest.mark.parametrize(
    ("purpose", "ages"), [(gate.LINK, (500, 601)), (gate.SESSION, (28_000, 28_801))]
)
def test_links_and_cookies_grow_old(purpose, ages, monkeypatch):
    ticket = gate.sign(TOKEN, purpose)
    now = gate.TimestampSigner(TOKEN).get_timestamp()
    seen = []
    for age in ages:
        monkeypatch.setattr(
            gate.TimestampSigner, "get_timestamp", lambda self, at=now + age: at
        )
        seen.append(gate.is_valid(TOKEN, purpose, ticket))
    assert seen == [True, False]
    assert not gate.is_valid("", purpose, ticket)


def test_a_session_is_no_link_and_its_cookie_stays_below_the_page(operator):
    session = operator.get_cookie(gate.COOKIE, path=gate.PATH)
    assert (session.http_only, session.same_site) == (True, "Strict")
    assert not gate.is_valid(TOKEN, gate.LINK, session.value)
    assert text_of(operator.get("/admin/"))
    assert operator.post("/admin/leave").status_code == 303
    assert_no_page(operator, "GET", "/admin/")


def test_a_program_sends_the_token(client):
    bearer = PAGE | {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/admin/", headers=bearer).status_code == 200
    wrong = PAGE | {"Authorization": f"Bearer {TOKEN[:-1]}"}
    assert client.get("/admin/", headers=wrong).status_code == 404


def test_another_site_cannot_press_its_buttons(operator, store):
    for name, value in (("Origin", "https://evil.example"), FROM_ELSEWHERE):
        answer = operator.post("/admin/queue/pause", headers={name: value})
        assert answer.status_code == 403
    assert store.leases.claim() is None  # nothing is queued, so see the page
    assert "Pause the queue" in text_of(operator.get("/admin/"))


FROM_ELSEWHERE = ("Sec-Fetch-Site", "cross-site")


def test_a_paused_queue_starts_nothing_until_it_is_resumed(
    operator, client, store, run_id
):
    answer = operator.post("/admin/queue/pause", follow_redirects=True)
    assert "No run starts until the queue is resumed" in text_of(answer)
    operator.post("/admin/queue/pause")  # a second press changes nothing
    assert store.leases.claim() is None
    waiting = client.get(f"{RUNS}/{run_id}").json
    assert (waiting["queue_paused"], waiting["expected_start_seconds"]) == (True, None)
    assert "Paused since" in text_of(operator.get("/admin/"))
    operator.post("/admin/queue/resume")
    assert client.get(f"{RUNS}/{run_id}").json["queue_paused"] is False
    assert store.leases.claim().run_id == run_id


def test_a_visitor_reads_that_the_operator_ended_the_run(
    operator, client, store, run_id
):
    running = client.post(RUNS, json=SMALL).json["id"]
    claim = store.leases.claim(running)
    for each in (run_id, running):
        assert operator.post(f"/admin/runs/{each}/end").status_code == 303
    assert store.leases.order(claim) == "cancel"
    store.leases.finish(claim, "cancelled")
    for each in (run_id, running):
        run = client.get(f"{RUNS}/{each}").json
        assert run["state"] == "cancelled"
        assert run["error"] == {
            "code": "ended_by_operator",
            "message": "the operator of this site ended the run.",
        }
        last = client.get(f"{RUNS}/{each}/events.json").json["events"][-1]
        assert last["data"]["error"] == run["error"]


def test_what_ended_before_stays_as_it_was(operator, client, store, run_id):
    client.post(f"{RUNS}/{run_id}/cancel")
    operator.post(f"/admin/runs/{run_id}/end")
    assert client.get(f"{RUNS}/{run_id}").json["error"] is None
    assert operator.post("/admin/runs/nowhere/end").status_code == 404


def test_it_shows_workers_runs_and_visitors_but_no_name(operator, client, store):
    named = client.post(RUNS, json={"name": "thesis of Ann", **SMALL}).json["id"]
    client.post(RUNS, json=SMALL)
    store.leases.claim(named)
    WorkerSign(store.database, 3, clock=store.clock).tend(1)
    page = text_of(operator.get("/admin/"))
    visitor = store.get(named).visitor
    assert "thesis" not in page
    assert visitor not in operator.get("/admin/").text
    rows = re.findall(r"[0-9a-f]{8} (\d) (\d) (\d)", page)
    assert rows == [("2", "1", "1")]
    assert f"{named[:8]}… training running 0 of 4" in page
    assert re.search(r"Host Version Runs Places Since Last seen \S+ \S+ 1 3", page)


def test_the_command_prints_a_link_that_opens(client, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path))
    monkeypatch.delenv("DPSGD_ADMIN_TOKEN", raising=False)
    assert main(["admin"]) == REFUSED
    assert "DPSGD_ADMIN_TOKEN must be set" in capsys.readouterr().err
    monkeypatch.setenv("DPSGD_ADMIN_TOKEN", TOKEN)
    assert main(["admin", "--site", "https://dp.example.org/"]) == 0
    link = capsys.readouterr().out.split()[0]
    assert link.startswith("https://dp.example.org/admin/enter/")
    assert TOKEN not in link
    path = link.removeprefix("https://dp.example.org")
    assert client.post(path, headers=PAGE).status_code == 303
