"""A run is paused, taken step by step under the microscope, and let go on."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import SHORT, at, focus, status

pytestmark = pytest.mark.long("more journeys")
STEP = re.compile(r"^Step (\d+): [\d,]+ of [\d,]+ gradients are cut to C = 0\.5")


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def test_a_run_is_paused_stepped_and_resumed_by_keyboard(open_page, axe):
    page = open_page(at(SHORT | {"steps": 4000}))
    focus(page.locator("[data-run]"))
    page.keyboard.press("Enter")
    focus(button(page, "Pause"))
    page.keyboard.press("Enter")
    expect(status(page)).to_have_text("Paused")
    expect(button(page, "Resume")).to_be_focused()
    title = page.locator("[data-step-title]")
    for _ in range(2):
        focus(button(page, "One step"))
        before = title.text_content()
        page.keyboard.press("Enter")
        expect(title).not_to_have_text(before)
        expect(title).to_have_text(STEP)
        expect(button(page, "One step")).to_be_visible()
    page.get_by_role("button", name="Show as table").first.click()
    expect(page.locator("[data-step-table]")).to_contain_text("Longest gradient")
    page.evaluate(axe)
    found = page.evaluate("async () => (await axe.run('[data-step-view]')).violations")
    assert [violation["id"] for violation in found] == []
    page.reload()  # another look at the same run finds it as it was left
    expect(status(page)).to_have_text("Paused")
    focus(button(page, "Resume"))
    page.keyboard.press("Enter")
    expect(button(page, "Pause")).to_be_focused()
    page.locator("[data-stop]").click()
    expect(status(page)).to_have_text("Stopped")
    expect(page.locator("[data-actions]")).to_be_hidden()
