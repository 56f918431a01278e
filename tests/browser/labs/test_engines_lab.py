"""The engines' lab by keyboard: a recorded comparison, and one of one’s own."""

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import REFUSED, choose, focus

LAB = "/labs/engines/"
MEASURED_MS = 400_000  # 11 s of CPU at low priority, beside other tests' work


@pytest.mark.long("more journeys")
def test_a_comparison_is_made_by_keyboard(open_page, axe):
    page = open_page(LAB, expected=[REFUSED])
    expect(page.get_by_text("recorded", exact=True)).to_be_visible()
    choose(page.get_by_label("Model", exact=True), "LSTM on tokens")
    focus(page.get_by_label("Width d", exact=True))
    page.keyboard.press("Control+A")
    page.keyboard.type("6")
    page.wait_for_url("**model=lstm**width=6**")
    run = page.get_by_role("button", name="Compare them")
    focus(run)
    page.keyboard.press("Enter")
    wrong = page.get_by_label("Width d", exact=True)
    expect(wrong).to_be_focused()
    expect(page.locator("#width-error")).to_contain_text("multiple of 4, the")
    page.keyboard.press("Control+A")
    page.keyboard.type("8")
    focus(run)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Engines, lstm, d = 8")
    state = page.locator("[data-run-state]")
    expect(state).to_have_text("Finished", timeout=MEASURED_MS)
    expect(page.locator("[data-panel] h2")).to_contain_text("3 engines")
    expect(page.locator("[data-panel] tbody").first.locator("tr")).to_have_count(5)
    expect(page.locator(".refusals")).to_contain_text("vmap rejects the model: lstm")
    expect(page.get_by_role("button", name="Stop run")).to_have_count(0)
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [fault["id"] for fault in found["violations"]] == []
