"""The lab of planted bugs by keyboard: guess, run, run anew, score."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import focus

LOOPS = (
    Path(__file__).parents[3] / "dpsgd_explorer" / "training" / "planted_bugs" / "loops"
)
BUGS = {path.stem for path in LOOPS.glob("*.py")} - {"__init__", "honest"}
FIRST_OF_ALL = f"1 of {len(BUGS)} bugs found"

LAB = "/labs/find-the-bug/"
RUN_MS = 600_000  # sixty steps and six bounds, on a machine that may have other work


def heading(page):
    return page.locator("[data-conclusion]")


def press(page, name):
    focus(page.get_by_role("button", name=name, exact=True))
    page.keyboard.press("Enter")


@pytest.mark.long("more journeys")
def test_a_bug_is_guessed_and_caught_and_the_score_stays(open_page, axe):
    page = open_page(LAB)
    expect(page.get_by_role("button", name="This one")).to_be_disabled()
    expect(page.locator("[data-outcome]")).to_be_hidden()
    focus(page.get_by_label("The noise has standard deviation σ, but must have σ C."))
    page.keyboard.press("Space")
    press(page, "This one")
    expect(page.locator("[data-outcome]")).to_be_focused()
    expect(page.locator("[data-outcome-words]")).to_have_text("Right.")
    expect(page.locator("[data-score]")).to_contain_text(FIRST_OF_ALL)
    press(page, "Run it")
    expect(heading(page)).to_contain_text("Caught: ε ≥")
    expect(page.locator("[data-bound-why]")).to_contain_text("At C = 1")
    page.get_by_text("Show as table").press("Enter")
    expect(page.locator("[data-bound-table] tbody tr")).to_have_count(6)
    page.evaluate(axe)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert [fault["id"] for fault in found["violations"]] == []
    focus(page.get_by_role("link", name="Next loop"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Loop 2")).to_be_visible()
    press(page, "Show the bug")
    press(page, "Run it")
    expect(page.locator("[data-bound-text]")).to_contain_text("BatchNorm1d")
    expect(heading(page)).to_have_text("PrivacyEngine rejects the loop")
    page.reload()
    expect(page.locator("[data-score]")).to_contain_text("2 of 17 loops done")
    press(page, "Start over")
    expect(page.locator("[data-score]")).to_have_text("")
    expect(page.get_by_role("button", name="This one")).to_be_visible()


@pytest.mark.long("more journeys")
@pytest.mark.timeout(1500)
def test_a_loop_is_run_anew_on_the_server_and_its_run_replayed(open_page):
    page = open_page(f"{LAB}?loop=12")
    press(page, "Show the bug")
    press(page, "Run it again on the server")
    expect(heading(page)).to_contain_text("PyTorch stops", timeout=RUN_MS)
    expect(page.locator("[data-bound-text]")).to_contain_text("a gradient of size")
    page.goto(page.url.replace("loop=12", "loop=7"))
    press(page, "Show the bug")
    press(page, "Run it again on the server")
    expect(heading(page)).to_contain_text("was promised", timeout=RUN_MS)
    focus(page.get_by_role("link", name="Open the run"))
    page.keyboard.press("Enter")
    title = page.get_by_role("heading", level=1)
    expect(title).to_contain_text("Loop audited: nothing is wrong")
    expect(page.locator("[data-bound-table] tbody tr")).to_have_count(6)
    place = page.get_by_label("Step of the replay")
    focus(place)
    page.keyboard.press("Home")
    expect(page.locator("[data-bound-table] tbody tr")).to_have_count(0)
    page.keyboard.press("End")
    expect(page.locator("[data-bound-table] tbody tr")).to_have_count(6)


@pytest.mark.long("more journeys")
def test_a_line_is_picked_by_keyboard_and_by_a_click(open_page, axe):
    page = open_page(f"{LAB}?loop=15", new_visitor=True)
    lines = page.get_by_role("option")
    expect(page.get_by_role("button", name="This line")).to_be_disabled()
    at_fault = page.locator("[data-at-fault]")
    text = at_fault.inner_text()
    place = lines.all_inner_texts().index(text)
    focus(lines.first)
    page.keyboard.press("End")
    expect(lines.last).to_be_focused()
    page.keyboard.press("Home")
    for _ in range(place):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(at_fault).to_have_attribute("aria-selected", "true")
    expect(page.locator("[data-picked]")).to_have_text(f"Picked: {text.strip()}")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [fault["id"] for fault in found["violations"]] == []
    press(page, "This line")
    expect(page.locator("[data-outcome]")).to_be_focused()
    expect(page.locator("[data-outcome-words]")).to_have_text("Right.")
    expect(page.locator("[data-score]")).to_contain_text(FIRST_OF_ALL)
    lines.first.click()  # what was said stands
    expect(lines.first).to_have_attribute("aria-selected", "false")
    page.goto(page.url.replace("loop=15", "loop=7"))  # nothing is wrong there
    lines.nth(10).click()
    press(page, "This line")
    expect(page.locator("[data-outcome-words]")).to_have_text("Not so.")
    expect(page.locator("[data-score]")).to_contain_text("and one false alarm")
