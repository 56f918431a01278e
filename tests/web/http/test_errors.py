"""Errors as a browser sees them, and the ones nobody planned."""

import pytest

from dpsgd_explorer import errors
from dpsgd_explorer.web.http.errors import STATUS
from tests.web.conftest import SMALL, error_of

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
RAISED_TO_VISITORS = {
    errors.AccountingError,
    errors.ClassNotFoundError,
    errors.ClassOverError,
    errors.ConfigError,
    errors.DivergedError,
    errors.QuotaError,
    errors.RunNotFoundError,
    errors.StorageBusyError,
    errors.StorageFullError,
    errors.StorageReadOnlyError,
    errors.StorageUnreachableError,
}


@pytest.mark.parametrize(
    "path", ["/nowhere", "/runs/nope/", "/learn/nope/", "/static/x"]
)
def test_a_browser_gets_a_page(reading, path):
    answer = reading.get(path, headers=BROWSER)
    assert answer.status_code == 404
    assert answer.mimetype == "text/html"
    assert '<nav class="site-nav"' in answer.text
    assert "Error 404" in answer.text


@pytest.mark.parametrize("path", ["/api/v1/nowhere", "/api/v1/runs/nope", "/api/"])
def test_the_api_answers_json_even_to_a_browser(reading, path):
    error_of(reading.get(path, headers=BROWSER), 404)


@pytest.mark.parametrize("accept", ["*/*", "application/json", "", "image/png"])
def test_a_program_gets_json_everywhere(reading, accept):
    error_of(reading.get("/nowhere", headers={"Accept": accept}), 404)


def test_a_browser_learns_which_methods_a_page_has(reading):
    answer = reading.post("/learn/", headers=BROWSER)
    assert answer.status_code == 405
    assert answer.mimetype == "text/html"
    assert "Error 405" in answer.text
    assert "POST is not allowed at this address. Allowed: GET, HEAD, OPTIONS." in (
        answer.text
    )


TYPED = "<script>alert(1)</script>"
PLACES = (
    "/{}/",
    "/learn/{}/",
    "/embed/{}/",
    "/glossary/{}/",
    "/teach/{}/",
    "/runs/{}/",
    "/teach/?for={}",
    "/teach/?for=two-worlds&noise={}",
    "/embed/two-worlds/?hide={}",
    "/embed/two-worlds/?{}=1",
    "/embed/two-worlds/?noise={}",
    "/train/?hide={}",
    "/train/?dataset={}",
    "/train/?{}=1",
    "/labs/planner/?epsilon={}",
    "/labs/accountants/?steps={}",
    "/labs/linear-regression/?epsilon={}",
)


@pytest.mark.parametrize("place", PLACES)
def test_what_a_visitor_types_is_text_on_every_page(reading, place):
    answer = reading.get(place.format(TYPED), headers=BROWSER)
    assert answer.mimetype == "text/html"
    assert "alert(1)</script>" not in answer.text
    assert "<script>alert" not in answer.text


def test_a_page_without_its_slash_is_found(reading):
    answer = reading.get("/learn?a=b%2Fc", headers=BROWSER)
    assert answer.status_code == 308
    assert answer.headers["Location"] == "/learn/?a=b%2Fc"


@pytest.mark.parametrize("headers", [{}, BROWSER], ids=["program", "browser"])
def test_a_fault_of_ours_tells_no_secrets(make_app, headers):
    app = make_app()

    def broken():
        raise RuntimeError("secret of the house")

    app.add_url_rule("/api/v1/broken", "broken", broken)
    app.config["PROPAGATE_EXCEPTIONS"] = False
    answer = app.test_client().get("/api/v1/broken", headers=headers)
    assert error_of(answer, 500)["code"] == "internal_server_error"
    assert "secret" not in answer.text


def test_a_fault_behind_a_page_is_a_page(make_app):
    app = make_app()
    app.add_url_rule("/broken", "broken", lambda: 1 / 0)
    app.config["PROPAGATE_EXCEPTIONS"] = False
    answer = app.test_client().get("/broken", headers=BROWSER)
    assert (answer.status_code, answer.mimetype) == (500, "text/html")
    assert "division" not in answer.text


def test_everything_that_visitors_can_cause_has_a_status():
    assert set(STATUS) == RAISED_TO_VISITORS


def test_head_and_options_are_answered(client):
    assert client.head("/api/v1/runs").status_code == 200
    assert "POST" in client.options("/api/v1/runs").headers["Allow"]
    run_id = client.post("/api/v1/runs", json=SMALL).json["id"]
    assert client.head(f"/api/v1/runs/{run_id}/events").status_code == 200


def test_an_error_page_is_a_sentence_with_ways_out(reading):
    page = reading.get("/runs/nosuch/", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert '<p class="lede">Run &#39;nosuch&#39; does not exist' in page.text
    for address in ("/runs/", "/train/"):
        assert f'<a class="button" href="{address}"' in page.text
