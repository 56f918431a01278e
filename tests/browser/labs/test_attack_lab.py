"""The lab of attacks by keyboard: a recorded attack, one's own, its page."""

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import REFUSED, focus, status

LAB = "/labs/attack/"
TRAINED_MS = 180_000  # ten trainings, on a machine that may have other work


@pytest.mark.long("more journeys")
def test_an_attack_is_made_and_read_by_keyboard(open_page, axe):
    page = open_page(LAB, expected=[REFUSED])
    heading = page.locator("#roc h3")
    expect(page.get_by_text("recorded", exact=True).first).to_be_visible()
    expect(heading).to_contain_text("ε alone (ε = 4.00)")
    label = page.get_by_label("Label you plant", exact=True)
    focus(label)
    page.keyboard.type("12")
    shadows = page.get_by_label("Shadow models", exact=True)
    focus(shadows)
    page.keyboard.press("Control+A")
    page.keyboard.type("4")
    page.wait_for_url("**canary_label=12**shadows=4**")
    run = page.get_by_role("button", name="Attack", exact=True)
    focus(run)
    page.keyboard.press("Enter")
    expect(label).to_be_focused()
    expect(page.locator("#canary_label-error")).to_contain_text("no other, got 12")
    expect(heading).to_be_visible()  # what stood there is untouched
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    focus(run)
    page.keyboard.press("Enter")
    expect(page.locator("[data-recorded]")).to_be_hidden()
    expect(page.locator("[data-results]")).to_contain_text("after the last model")
    expect(status(page)).to_have_text("Finished", timeout=TRAINED_MS)
    expect(page.locator("#record .chart-sub")).to_contain_text("planted as 3")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [fault["id"] for fault in found["violations"]] == []
    said = heading.inner_text()
    focus(page.get_by_role("link", name="Open the run"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("label you plant 3")
    expect(page.locator("#roc h3")).to_have_text(said)
    table = page.locator("#roc .table-toggle summary")
    focus(table)
    page.keyboard.press("Enter")
    expect(page.locator("#roc tbody tr")).to_have_count(6)


@pytest.mark.long("more journeys")
def test_a_page_that_is_open_when_an_attack_ends_gets_its_figures(open_page):
    page = open_page(f"{LAB}?dataset=adult&shadows=4")
    focus(page.get_by_role("button", name="Attack", exact=True))
    page.keyboard.press("Enter")
    link = page.get_by_role("link", name="Open the run")
    expect(link).to_be_visible()
    page.goto(page.url.split("/labs")[0] + link.get_attribute("href"))
    expect(status(page)).to_have_text("Finished", timeout=TRAINED_MS)
    expect(page.locator("#roc h3")).to_contain_text("ε alone (ε = 4.00)")
