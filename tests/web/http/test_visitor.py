"""The cookie: signed, given late, and the key behind it."""

import stat
import threading

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.http.visitor import (
    COOKIE,
    KEY_BYTES,
    KEY_FILE,
    cookie_key,
    make_signer,
)
from tests.web.conftest import SMALL, error_of

RUNS = "/api/v1/runs"


def test_reading_gives_no_cookie(client, run_id):
    other = client.application.test_client()
    for path in (RUNS, f"{RUNS}/{run_id}", "/healthz", "/api/v1/privacy/plan"):
        assert "Set-Cookie" not in other.get(path).headers


def test_the_first_launch_gives_one_that_scripts_and_sites_cannot_use(client):
    cookie = client.post(RUNS, json=SMALL).headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert "Set-Cookie" not in client.post(RUNS, json=SMALL).headers


def test_the_cookie_stays_on_encrypted_ways_where_there_are_any(client):
    answer = client.post(RUNS, json=SMALL, base_url="https://localhost")
    assert "Secure" in answer.headers["Set-Cookie"].split("; ")


@pytest.mark.parametrize("forge", ["value", "signature", "plain", "empty", "odd"])
def test_a_forged_cookie_is_nobody(client, other_visitor, run_id, forge):
    value, _, signature = client.get_cookie(COOKIE).value.rpartition(".")
    forged = {
        "value": f"{value.swapcase()}.{signature}",
        "signature": f"{value}.{'A' * len(signature)}",
        "plain": value,
        "empty": "",
        "odd": "\\377.\\377",
    }[forge]
    other_visitor.set_cookie(COOKIE, forged)
    assert other_visitor.get(RUNS).json["runs"] == []
    error_of(other_visitor.delete(f"{RUNS}/{run_id}"), 404)
    assert "Set-Cookie" in other_visitor.post(RUNS, json=SMALL).headers


def test_a_restart_knows_its_visitors(make_app, client, run_id):
    again = make_app().test_client()
    again.set_cookie(COOKIE, client.get_cookie(COOKIE).value)
    assert [run["id"] for run in again.get(RUNS).json["runs"]] == [run_id]


def test_the_key_is_made_once_for_its_owner_only(tmp_path):
    path = tmp_path / "deeper" / KEY_FILE
    key = cookie_key(path)
    assert len(key) == KEY_BYTES
    assert cookie_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [KEY_FILE]


def test_processes_that_start_together_agree_on_the_key(tmp_path):
    keys, gate = [], threading.Barrier(8)

    def start():
        gate.wait()
        keys.append(cookie_key(tmp_path / KEY_FILE))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1


def test_a_damaged_key_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / KEY_FILE
    path.write_bytes(b"short")
    with pytest.raises(
        ConfigError, match=r"got 5\. Delete it and start the site again"
    ):
        cookie_key(path)


def test_web_servers_with_one_key_know_each_others_visitors(tmp_path):
    """Each has an instance folder, as each container has; the runs are in one place."""
    signed = {}
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        for key in ("", "a key of the whole site"):
            signer = make_signer(folder, key)
            signed.setdefault(key, []).append(signer.sign("ann"))
    assert len(set(signed[""])) == 2
    assert len(set(signed["a key of the whole site"])) == 1
