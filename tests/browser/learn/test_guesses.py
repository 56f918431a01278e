"""A guess before a picture: made by hand or key, answered beside it, and counted."""

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import focus


@pytest.mark.long("more journeys")
def test_an_untouched_disc_is_no_guess_and_a_moved_one_is_counted(open_page):
    page = open_page("/learn/dp-concepts/", new_visitor=True, reduced_motion="reduce")
    score = page.locator("[data-guess-score]")
    expect(score).to_be_hidden()
    little = page.get_by_label("With little noise")
    much = page.get_by_label("With much noise")
    page.get_by_role("button", name="Move the disc first").click()
    expect(little).to_be_focused()
    expect(page.locator("#two-worlds")).to_be_hidden()
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Move the disc first").click()
    expect(much).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("button", name="Show the picture")).to_be_visible()
    page.keyboard.press("Enter")  # locks both
    expect(page.locator("#two-worlds")).to_be_visible()
    expect(much).to_be_disabled()
    question = page.locator("#two-worlds-guess")
    expect(question.locator(".truth-mark")).to_have_count(2)
    said = question.locator("[data-outcome]").nth(1)
    expect(said).to_contain_text("You said 100 %; it is about")
    expect(said).to_contain_text("points too high.")
    expect(score).to_contain_text("of 2")
    counted = score.inner_text()
    page.reload()
    expect(score).to_have_text(counted)
    focus(much)
    page.keyboard.press("Home")
    focus(little)
    page.keyboard.press("Enter")
    expect(page.locator("#two-worlds")).to_be_visible()
    expect(score).to_have_text(counted)  # the first guess stays


@pytest.mark.long("more journeys")
def test_a_skipped_guess_is_not_counted(open_page):
    page = open_page("/learn/dp-concepts/", new_visitor=True)
    page.get_by_role("button", name="Skip the guess").click()
    expect(page.locator("#two-worlds")).to_be_visible()
    expect(page.locator("[data-guess-score]")).to_be_hidden()
    expect(page.locator(".truth-mark")).to_have_count(0)
