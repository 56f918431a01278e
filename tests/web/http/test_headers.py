"""What every answer carries, and who may ask for a change."""

from importlib.metadata import version

import pytest

from dpsgd_explorer.web.http.headers import SECURITY_HEADERS
from tests.web.conftest import SMALL, error_of

RUNS = "/api/v1/runs"
ADDRESSES = [
    "/healthz",
    "/openapi.json",
    RUNS,
    "/api/v1/privacy/plan",
    "/api/v1/nothing",
    f"/static/plotly-{version('plotly')}/plotly.min.js",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_carries_the_security_headers(reading, address):
    headers = reading.get(address, buffered=True).headers
    for name, value in SECURITY_HEADERS.items():
        assert headers.getlist(name) == [value], name
    assert "Access-Control-Allow-Origin" not in headers
    assert "Server" not in headers


def test_the_policy_lets_in_no_script_and_style_but_ours():
    policy = dict(
        directive.split(" ", 1)
        for directive in SECURITY_HEADERS["Content-Security-Policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in str(policy)
    assert policy["style-src"].split()[0] == "'self'"
    assert all(s.startswith("'sha256-") for s in policy["style-src"].split()[1:])
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"


def test_computed_answers_are_asked_for_again(reading):
    assert reading.get("/healthz").headers["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    ],
    ids=str,
)
def test_another_site_can_change_nothing(client, run_id, headers):
    for method, path in (("POST", ""), ("POST", f"/{run_id}/cancel")):
        answer = client.open(
            f"{RUNS}{path}", method=method, json=SMALL, headers=headers
        )
        assert error_of(answer, 403)["code"] == "cross_site"
    error_of(client.delete(f"{RUNS}/{run_id}", headers=headers), 403)
    assert client.get(RUNS, headers=headers).json["runs"][0]["state"] == "queued"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://localhost"},
    ],
    ids=str,
)
def test_our_own_pages_and_plain_programs_may(client, headers):
    assert client.post(RUNS, json=SMALL, headers=headers).status_code == 201


def test_a_proxy_that_does_not_pass_host_is_named_as_the_cause(client):
    headers = {"Origin": "https://dp.example.org"}
    message = error_of(client.post(RUNS, json=SMALL, headers=headers), 403)["message"]
    assert "from https://dp.example.org, the request is for 'localhost'" in message
    assert "it must forward the Host header" in message


FOREIGN = ["evil.example", "localhost.evil.example", "evil.example:8000", "[::2]:80"]


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/train", "/", "/healthz", RUNS, "/nowhere"])
def test_a_request_to_another_sites_name_is_refused(reading, host, path):
    answer = reading.get(path, headers={"Host": host})
    error = error_of(answer, 400)
    assert error["code"] == "untrusted_host"
    assert f"got {host.removesuffix(':80')!r}" in error["message"]
    assert "DPSGD_HOSTS" in error["message"]


def test_a_page_by_dns_rebinding_launches_nothing(client, store):
    rebound = {
        "Host": "evil.example",
        "Origin": "http://evil.example",
        "Sec-Fetch-Site": "same-origin",
    }
    error_of(client.post(RUNS, json=SMALL, headers=rebound), 400)
    assert store.counts()["queued"] == 0


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
@pytest.mark.parametrize("port", ["", ":8000"])
def test_this_machine_has_several_names(reading, host, port):
    assert reading.get("/healthz", headers={"Host": host + port}).status_code == 200


def test_further_names_are_a_setting(make_app):
    client = make_app(hosts=("dp.example.org", "[fd00::1]"), host="192.0.2.7")
    for host in ("dp.example.org", "[fd00::1]:80", "192.0.2.7:8000", "localhost"):
        answer = client.test_client().get("/healthz", headers={"Host": host})
        assert answer.status_code == 200


def test_what_a_proxy_says_counts_only_if_there_is_one(make_app):
    said = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
    for is_behind_proxy in (False, True):
        client = make_app(is_behind_proxy=is_behind_proxy).test_client()
        answer = client.post(RUNS, json=SMALL, headers=said)
        assert ("; Secure;" in answer.headers["Set-Cookie"]) is is_behind_proxy
