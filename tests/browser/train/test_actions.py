"""A run is paused, taken step by step under the microscope, and let go on."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import (
    LONG,
    REFUSED,
    SHORT,
    at,
    focus,
    points,
    run_button,
    run_to_the_end,
    status,
    unfold,
    violations,
)

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
    expect(title).to_be_hidden()  # the step folds to a line: the charts move now
    page.locator("[data-step-view] summary").click()
    expect(title).to_have_text(STEP)
    page.locator("[data-stop]").click()
    expect(status(page)).to_have_text("Stopped")
    expect(page.locator("[data-actions]")).to_be_hidden()


def test_a_setting_is_changed_in_mid_run_or_for_the_next_only(open_page):
    page = open_page(at(SHORT | {"steps": 20_000}))
    focus(page.locator("[data-run]"))
    page.keyboard.press("Enter")
    focus(button(page, "Pause"))
    page.keyboard.press("Enter")
    expect(status(page)).to_have_text("Paused")
    focus(page.locator("#max_grad_norm"))
    page.keyboard.press("Control+a")
    page.keyboard.type("0.25")
    note = page.locator(".mid-run", has_text="0.5 in this run → 0.25")
    expect(note).to_contain_text("costs no ε")
    note.get_by_role("button", name="Only the next").click()
    expect(note).to_be_hidden()
    focus(page.locator("#max_grad_norm"))
    page.keyboard.press("Control+a")
    page.keyboard.type("0.2")
    note = page.locator(".mid-run", has_text="0.5 in this run → 0.2 ")
    focus(note.get_by_role("button", name="Change this run"))
    page.keyboard.press("Enter")
    ordered = page.locator(".mid-run", has_text="bound C will change to 0.2 at the")
    expect(ordered.get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(note.get_by_role("button", name="Change this run")).to_be_focused()
    page.keyboard.press("Enter")
    expect(ordered.get_by_role("button", name="Change this run")).to_be_hidden()
    button(page, "One step").click()
    said = page.locator("[data-run-changes]")
    expect(said).to_contain_text(
        re.compile(r"^Changed after step [\d,]+, .* C 0\.5 → 0\.2\.")
    )
    expect(said).to_contain_text("Chosen while looking")
    expect(note).to_be_hidden()
    expect(page.locator("[data-step-title]")).to_contain_text("cut to C = 0.2")
    page.locator("[data-stop]").click()
    expect(status(page)).to_have_text("Stopped")


def test_steps_are_changed_within_a_budget_and_the_wall_ends_the_run(open_page):
    noise = {"target_epsilon": "", "noise_multiplier": 2, "filter_epsilon": 8}
    page = open_page(at(SHORT | {"steps": 20_000} | noise))
    focus(page.locator("[data-run]"))
    page.keyboard.press("Enter")
    focus(button(page, "Pause"))
    page.keyboard.press("Enter")
    expect(status(page)).to_have_text("Paused")
    unfold(page)
    focus(page.locator("#steps"))
    page.keyboard.press("Control+a")
    page.keyboard.type("19000")
    note = page.locator(".mid-run", has_text="20,000 in this run → 19,000")
    expect(note).to_contain_text("The guarantee remains ε = 8.00 (bound)")
    expect(note).to_contain_text("does not cover it if the loss")
    focus(note.get_by_role("button", name="Change this run"))
    page.keyboard.press("Enter")
    button(page, "One step").click()
    said = page.locator("[data-run-changes]")
    expect(said).to_contain_text("steps 20,000 → 19,000")
    expect(said).to_contain_text("against the budget ε = 8.00 fixed at the start")
    expect(status(page, "detail")).to_contain_text("of 19,000")
    page.locator("#noise_multiplier").fill("0.01")
    note = page.locator(".mid-run", has_text="the run would end here")
    note.get_by_role("button", name="Change this run").click()
    focus(button(page, "Resume"))
    page.keyboard.press("Enter")
    expect(status(page)).to_have_text("Finished")
    expect(said).to_contain_text("The run ended at its budget")
    expect(status(page, "epsilon")).to_have_text("8.00")


def test_without_a_budget_the_page_says_what_to_do(open_page):
    page = open_page(at(SHORT | {"steps": 20_000}))
    page.locator("[data-run]").click()
    button(page, "Pause").click()
    expect(status(page)).to_have_text("Paused")
    unfold(page)
    page.locator("#steps").fill("19000")
    note = page.locator(".mid-run", has_text="This run has no budget for changes")
    expect(note).to_be_visible()
    expect(note.get_by_role("button", name="Change this run")).to_be_hidden()
    note.get_by_role("button", name="Only the next").click()
    expect(note).to_be_hidden()
    page.locator("[data-stop]").click()
    expect(status(page)).to_have_text("Stopped")


def test_a_run_that_is_done_is_continued_at_a_price_that_is_said_before(open_page, axe):
    noise = {"target_epsilon": "", "noise_multiplier": 4, "filter_epsilon": 8}
    page = open_page(at(SHORT | noise), expected=[REFUSED])
    run_to_the_end(page)
    page.locator("[data-latest-runs] th a").first.click()
    steps = page.get_by_label("Further steps")
    said = page.locator("[data-continue-words]")
    again = button(page, "Continue this run")
    expect(said).to_contain_text("All 440 steps are within the budget")
    expect(said).to_contain_text("The guarantee remains ε = 8.00 (bound)")
    for typed, words in {
        "": "a whole number, at least 1",
        "1.5": "a whole number, at least 1",
        "100000": "must be at most 100000",
    }.items():
        focus(steps)
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
        page.keyboard.type(typed)
        expect(said).to_contain_text(words)
        expect(again).to_be_disabled()
    page.keyboard.press("Control+a")
    page.keyboard.type("60")
    expect(said).to_contain_text("All 460 steps are within the budget")
    expect(said).to_contain_text("does not cover it if the loss")
    assert violations(page, axe) == []
    before = page.url
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url != before)
    changes = page.locator("[data-run-changes]")
    expect(changes).to_contain_text("Continued after step 400 for 60 steps")
    expect(changes).to_contain_text("against the budget ε = 8.00 fixed at the start")
    expect(steps).to_be_visible()  # it is done, and may go on in its turn
    expect(status(page, "epsilon")).to_have_text("8.00")
    page.get_by_role("link", name="an earlier run").click()
    link = page.get_by_role("link", name="the run with the steps that follow")
    expect(link).to_be_visible()
    expect(again).to_have_count(0)


def test_a_run_that_was_stopped_is_continued_too(open_page):
    noise = {"target_epsilon": "", "noise_multiplier": 4, "filter_epsilon": 8}
    page = open_page(at(LONG | noise))
    run_button(page).click()
    expect(points(page).nth(1)).to_be_attached()
    page.locator("[data-stop]").click()
    expect(status(page)).to_have_text("Stopped")
    page.locator("[data-latest-runs] th a").first.click()
    steps = page.get_by_label("Further steps")
    expect(steps).to_have_value(re.compile(r"^[1-9]\d{3,}$"))  # all that were planned
    said = page.locator("[data-continue-words]")
    expect(said).to_contain_text("steps are within the budget")
    focus(steps)
    page.keyboard.press("Control+a")
    page.keyboard.type("40")
    expect(said).to_contain_text("The guarantee remains ε = 8.00 (bound)")
    before = page.url
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url != before)
    changes = page.locator("[data-run-changes]")
    expect(changes).to_contain_text(re.compile(r"Continued after step .* for 40 steps"))
    expect(status(page)).to_have_text("Finished")


def test_a_run_by_plan_says_why_it_cannot_be_continued(open_page):
    page = open_page(at(SHORT))
    run_to_the_end(page)
    page.locator("[data-latest-runs] th a").first.click()
    expect(page.locator("aside.run-details")).to_contain_text(
        "it cannot be continued: its ε holds for a plan fixed beforehand",
        ignore_case=True,  # after its last step, where the page came before its end
    )
    expect(button(page, "Continue this run")).to_have_count(0)
