"""A table of one's own, from the file to a run, by keyboard."""

import json
import re

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.audit import verify_receipt
from tests.browser.site.test_pages import in_both_themes, too_narrow
from tests.browser.trainer import REFUSED, run_button, status
from tests.experiments.test_own_table import csv_of
from tests.regression.tables import houses

STATED = {
    0: ("number", "0 to 200"),
    1: ("category", "red, green"),
    3: ("label", "no, yes"),
}
HOUSE_COLUMNS = {
    0: ("number", "0 to 10"),
    1: ("category", "old, new"),
    2: ("target", "0 to 20"),
}


def press(page, role, name):
    place = page.get_by_role(role, name=name)
    place.focus()
    page.keyboard.press("Enter")


@pytest.mark.long("more journeys")
def test_a_table_of_ones_own_is_brought_stated_and_trained_on(open_page, axe):
    page = open_page("/data/", expected=[REFUSED])
    assert in_both_themes(page, axe) + too_narrow(page) == []
    table = {"name": "people.csv", "mimeType": "text/csv", "buffer": csv_of()}
    page.locator("#file").set_input_files(table)
    expect(page.locator("[data-preview] tbody tr")).to_have_count(5)
    assert in_both_themes(page, axe) + too_narrow(page) == []
    press(page, "button", "Upload")
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "What does each column contain?"
    )
    page.get_by_label("All columns").check()
    page.locator("#many-kind").select_option("number")
    page.locator("#many-text").fill("0 to 7")
    press(page, "button", "Set 4 columns")
    expect(page.locator("#text-2")).to_have_value("0 to 7")
    page.locator("#kind-2").select_option("ignored")
    for place, (kind, text) in STATED.items():
        page.locator(f"#kind-{place}").select_option(kind)
        page.locator(f"#text-{place}").fill(text)
    page.locator("#text-0").fill("many")
    press(page, "button", "Create the table")
    expect(page.locator("#error-0")).to_contain_text("such as 0 to 100")
    assert page.locator("#text-3").input_value() == "no, yes"
    assert in_both_themes(page, axe) + too_narrow(page) == []
    page.locator("#text-0").fill("0 to 200")
    press(page, "button", "Create the table")
    expect(page.get_by_role("status")).to_contain_text("rows to learn from")
    assert in_both_themes(page, axe) + too_narrow(page) == []
    page.set_viewport_size({"width": 1280, "height": 844})
    press(page, "link", "Train on it")
    expect(page.locator("#dataset")).to_have_value(re.compile("own-"))
    page.wait_for_load_state()  # by then its scripts have run
    run_button(page).press("Enter")
    expect(status(page)).to_have_text("Finished")
    page.goto("/".join(page.url.split("/")[:3]) + "/data/")
    press(page, "button", re.compile("Delete"))
    expect(page.get_by_role("status")).to_contain_text("Deleted.")
    expect(page.get_by_role("heading", name="Your tables")).to_have_count(0)


@pytest.mark.long("more journeys")
def test_a_number_is_predicted_by_a_regression_on_a_table_of_ones_own(open_page, axe):
    page = open_page("/data/", expected=[REFUSED])
    table = {"name": "houses.csv", "mimeType": "text/csv", "buffer": houses()}
    page.locator("#file").set_input_files(table)
    press(page, "button", "Upload")
    for place, (kind, text) in HOUSE_COLUMNS.items():
        page.locator(f"#kind-{place}").select_option(kind)
        page.locator(f"#text-{place}").fill(text)
    page.locator("#text-2").fill("many")
    press(page, "button", "Create the table")
    expect(page.locator("#error-2")).to_contain_text("such as 0 to 100")
    assert page.locator("#text-1").input_value() == "old, new"
    page.locator("#text-2").fill("0 to 20")
    press(page, "button", "Create the table")
    expect(page.get_by_role("status")).to_contain_text("rows to learn from")
    assert in_both_themes(page, axe) + too_narrow(page) == []
    press(page, "link", "Private regression")
    page.locator("#delta").fill("0.1")
    press(page, "button", "Run it")
    expect(page.locator("#delta-error")).to_contain_text("below 1/N")
    assert in_both_themes(page, axe) + too_narrow(page) == []
    page.locator("#delta").fill("1e-5")
    page.locator("#target_epsilon").fill("8")
    press(page, "button", "Run it")
    errors = page.get_by_role("region", name="Typical error of price")
    expect(errors.locator("tbody th")).to_have_text(
        ["AdaSSP", "SSP", "NoisyGD", *(re.compile("not private") for _ in range(2))],
        timeout=60_000,
    )
    expect(page.locator("[data-run-state]")).to_have_text("Finished")
    spent = page.locator("[data-spent]")
    expect(spent.locator(".plan-value")).to_have_text("ε = 8.00")
    expect(spent).to_contain_text("covers all 3 releases together")
    coefficients = page.get_by_role("region", name="Released coefficients")
    expect(coefficients.locator("tbody th")).to_have_text(
        ["intercept", "rooms", "age = new"]
    )
    assert in_both_themes(page, axe) + too_narrow(page) == []
    with page.expect_download() as receipt:
        page.get_by_role("link", name="Receipt, JSON").click()
    content = json.loads(receipt.value.path().read_text(encoding="utf-8"))
    assert verify_receipt(content).wrong == []
