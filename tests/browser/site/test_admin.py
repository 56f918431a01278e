"""The operator's page in a browser, by keyboard."""

import json
import urllib.request

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.operation import gate
from tests.browser.site.test_pages import FITS, SMALL_TARGETS, in_both_themes

TOKEN = "k7Zp-2vQx9_LmN4tR8wA"
LONG = {"dataset": "adult", "model": "logistic", "steps": 5000, "evaluations": 2}


def launch(address):
    """Launch a run as a visitor without a cookie; return its id."""
    request = urllib.request.Request(
        f"{address}/api/v1/runs",
        json.dumps(LONG).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["id"]


@pytest.mark.long("more journeys")
def test_an_operator_pauses_the_queue_and_ends_a_run(open_page, serve, axe):
    address = serve(DPSGD_ADMIN_TOKEN=TOKEN)
    page = open_page(
        f"/admin/enter/{gate.sign(TOKEN, gate.LINK)}", at=address, new_visitor=True
    )
    page.get_by_role("button", name="Enter").press("Enter")
    expect(page.get_by_role("heading", name="Workers")).to_be_visible()
    page.get_by_role("button", name="Pause the queue").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("No run starts")
    run_id = launch(address)
    page.get_by_role("link", name="Read again").press("Enter")
    assert in_both_themes(page, axe) == []
    assert page.evaluate(SMALL_TARGETS) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(FITS)
    visitor = open_page(f"/runs/{run_id}/", at=address, new_visitor=True)
    expect(visitor.get_by_text("paused by the operator")).to_be_visible()

    page.locator("summary").press("Enter")
    page.get_by_role("button", name="End it for good").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The run ends")
    expect(visitor.locator("[data-failure]")).to_have_text(
        "The operator of this site ended the run."
    )
    page.get_by_role("button", name="Resume the queue").press("Enter")
    expect(page.get_by_role("button", name="Pause the queue")).to_be_visible()
    page.get_by_role("button", name="Leave").press("Enter")
    expect(page).to_have_url(f"{address}/")
