"""Proxies that are trusted, and the users whom they name."""

import dataclasses
import io
import logging

import pytest

from dpsgd_explorer.web.http.visitor import COOKIE
from tests.web.conftest import SMALL, application, error_of

RUNS = "/api/v1/runs"
USER = "X-Remote-User"
PROXY, ELSEWHERE = "10.0.0.7", "192.0.2.9"


@pytest.fixture
def app(make_app, settings):
    """A site behind a university's login."""
    operation = dataclasses.replace(
        settings.operation, trusted_proxies=("10.0.0.0/8",), user_header=USER
    )
    return make_app(is_behind_proxy=True, operation=operation)


def ask(client, method, path, peer=PROXY, user=None, **options):
    """Ask by a proxy, or by whoever else is the peer, in the name of a user."""
    headers = options.pop("headers", {}) | ({USER: user} if user is not None else {})
    peer = {"environ_overrides": {"REMOTE_ADDR": peer}}
    return client.open(path, method=method, headers=headers, **peer, **options)


def launched(client, **who):
    answer = ask(client, "POST", RUNS, json=SMALL, **who)
    assert answer.status_code == 201, answer.text
    return answer


def listed(client, **who):
    return [run["id"] for run in ask(client, "GET", RUNS, **who).json["runs"]]


def test_a_user_has_the_same_runs_at_any_browser_and_no_cookie(app):
    at_home, at_work, neighbour = (app.test_client() for _ in range(3))
    answer = launched(at_home, user="ann")
    assert "Set-Cookie" not in answer.headers
    assert listed(at_work, user="ann") == [answer.json["id"]]
    assert listed(neighbour, user="bob") == []
    assert listed(at_home) == []
    error_of(
        ask(neighbour, "POST", f"{RUNS}/{answer.json['id']}/cancel", user="bob"), 404
    )


def test_the_name_is_stored_nowhere_and_shown_to_nobody(app, store, tmp_path):
    client = app.test_client()
    run_id = launched(client, user="ann.smith@example.org").json["id"]
    visitor = store.get(run_id).visitor
    assert len(visitor) == 43
    texts = [ask(client, "GET", f"{RUNS}/{run_id}").text]
    texts += [ask(client, "GET", f"/runs/{run_id}/").text]
    stored = b"".join(p.read_bytes() for p in tmp_path.rglob("runs.sqlite3*"))
    assert visitor.encode() in stored
    for text in (*texts, str(stored)):
        assert "ann.smith" not in text


def test_the_same_name_is_another_visitor_on_another_site(app, settings_in, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    other = dataclasses.replace(
        settings_in(folder),
        is_behind_proxy=True,
        operation=app.extensions["settings"].operation,
    )
    with application(other) as elsewhere:
        sites = [app, elsewhere]
        ids = [launched(site.test_client(), user="ann").json["id"] for site in sites]
        visitors = {
            site.extensions["run_store"].get(run_id).visitor
            for site, run_id in zip(sites, ids, strict=True)
        }
    assert len(visitors) == 2


def test_a_header_from_elsewhere_is_ignored_and_logged_once(app, caplog):
    mine = launched(app.test_client(), user="ann").json["id"]
    with caplog.at_level(logging.WARNING):
        for peer in (ELSEWHERE, "127.0.0.1", "::1", "", "11.0.0.7"):
            client = app.test_client()
            assert listed(client, peer=peer, user="ann") == []
            answer = launched(client, peer=peer, user="ann")
            assert f"{COOKIE}=" in answer.headers["Set-Cookie"]
            assert mine not in listed(client, peer=peer, user="ann")
    said = [each for each in caplog.messages if "DPSGD_TRUSTED_PROXIES" in each]
    assert len(said) == 1
    assert "ann" not in said[0]


def test_an_address_from_elsewhere_is_ignored(app):
    """Who could say for whom it asks could have the quotas of any network."""
    secure = {"X-Forwarded-For": "198.51.100.1", "X-Forwarded-Proto": "https"}
    seen = {}
    for peer in (PROXY, f"::ffff:{PROXY}", ELSEWHERE):
        answer = launched(app.test_client(), peer=peer, headers=secure)
        seen[peer] = "Secure" in answer.headers["Set-Cookie"]
    assert seen == {PROXY: True, f"::ffff:{PROXY}": True, ELSEWHERE: False}


def test_who_is_not_logged_in_has_a_cookie(app):
    for name in ("", "   "):
        answer = launched(app.test_client(), user=name)
        assert f"{COOKIE}=" in answer.headers["Set-Cookie"]


def test_odd_names_are_users_too(app):
    names = ["ann", "Ann", "änn", "x" * 4000, "a,b"]
    ids = [launched(app.test_client(), user=name).json["id"] for name in names]
    for name, run_id in zip(names, ids, strict=True):
        assert listed(app.test_client(), user=name) == [run_id]


def test_without_the_setting_the_header_is_any_other(client, run_id):
    assert listed(client, peer="127.0.0.1", user="ann") == [run_id]


@pytest.mark.parametrize("path", ["/data/", RUNS, "/nowhere/"])
def test_a_body_that_nobody_needs_is_read_to_its_end_all_the_same(app, path):
    sent = io.BytesIO(bytes(2**20))
    answer = ask(
        app.test_client(), "POST", path, input_stream=sent, content_length=2**20
    )
    assert answer.status_code >= 400
    assert sent.tell() == 2**20
