"""A table of one's own, from the file to a run, by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.site.test_pages import in_both_themes, too_narrow
from tests.browser.trainer import REFUSED, run_button, status
from tests.experiments.test_own_table import csv_of

STATED = {
    0: ("number", "0 to 200"),
    1: ("category", "red, green"),
    3: ("label", "no, yes"),
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
