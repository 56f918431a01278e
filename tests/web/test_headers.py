"""What every answer carries, and who may ask for a change."""

from importlib.metadata import version

import pytest

from dpsgd_explorer.web.headers import SECURITY_HEADERS
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
def test_every_answer_carries_the_security_headers(client, address):
    headers = client.get(address, buffered=True).headers
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


def test_computed_answers_are_asked_for_again(client):
    assert client.get("/healthz").headers["Cache-Control"] == "private, no-cache"


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
