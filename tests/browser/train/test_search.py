"""A blind search by hand and by keyboard: its price first, then its winner alone."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TINY
from tests.browser.trainer import REFUSED, at, focus, is_too_wide, status, violations
from tests.conftest import PATIENCE_MS

pytestmark = pytest.mark.long("more journeys")
ALL_MS = 3 * PATIENCE_MS  # some thirty trainings follow each other


def opener(page):
    return page.get_by_role("button", name="Search blindly")


def price(page, name):
    return page.locator(f'[data-price="{name}"]')


def test_a_search_is_priced_and_started_by_keyboard_and_shows_its_winner(
    open_page, axe
):
    page = open_page(at(TINY | {"steps": 10, "evaluations": 4}))
    focus(opener(page))
    page.keyboard.press("Enter")
    rates = page.get_by_label("Learning rates η")
    expect(rates).to_be_focused()
    expect(rates).to_have_value("1 2 4 8 16")
    expect(price(page, "winner")).to_have_text(re.compile(r"^\d\.\d\d$"))
    expect(price(page, "trial")).to_have_text("1.00")
    before = float(price(page, "winner").inner_text())
    assert before > 1
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.get_by_label("Trials on average")).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("3")
    expect(price(page, "shown")).to_have_text("3")
    expect(price(page, "winner")).not_to_have_text(f"{before:.2f}")
    winner = price(page, "winner").inner_text()
    assert 1 < float(winner) < before
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert violations(page, axe) == [], (scheme, width)
            assert not is_too_wide(page)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Blind search, Adult income")
    heading = page.locator('[data-chart="winner"] [data-conclusion]')
    expect(heading).to_have_text(re.compile("^Nothing is shown before|^The winner"))
    expect(status(page)).to_have_text("Finished", timeout=ALL_MS)
    expect(heading).to_have_text(re.compile(r"^The winner, η = \d+, reaches \d"))
    expect(status(page, "winner")).to_have_text(re.compile(r"^η = \d+$"))
    expect(status(page, "epsilon")).to_have_text(winner)
    expect(page.locator("[data-spent]")).to_contain_text(f"ε = {winner}")
    expect(page.locator("[data-run-state]")).to_have_text("Finished")
    assert "bound" in page.locator(".search-price tbody tr").first.inner_text()
    page.get_by_role("button", name="Show as table").click()
    expect(page.locator("#winner-table tbody tr")).to_have_count(4)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert violations(page, axe) == [], (scheme, width)
            assert not is_too_wide(page)
    page.reload()
    expect(heading).to_have_text(re.compile(r"^The winner, η"))
    expect(page.locator("[data-replay]")).to_be_hidden()


def test_a_price_that_comes_late_never_stands_beside_newer_settings(open_page):
    page, held = open_page(at(TINY)), []
    page.route("**/privacy/search?*mean_trials=10*", lambda route: held.append(route))
    prices = page.locator(".search-prices")
    with page.expect_request("**/privacy/search?*"):
        opener(page).click()
    page.get_by_label("Trials on average").fill("3")
    expect(price(page, "shown")).to_have_text("3")
    of_three = prices.inner_text()
    for route in held:
        route.continue_()
    page.evaluate("() => fetch('/healthz')")  # it is answered after what was held
    expect(prices).to_have_attribute("aria-busy", "false")
    assert prices.inner_text() == of_three


def test_what_cannot_be_searched_is_said_in_the_dialog_and_nothing_is_lost(open_page):
    page = open_page(at(TINY), expected=[REFUSED])
    opener(page).click()
    rates = page.get_by_label("Learning rates η")
    error = page.locator("[data-search-error]")
    rates.fill("4 fast")
    expect(error).to_contain_text("'fast'")
    expect(rates).to_have_attribute("aria-invalid", "true")
    expect(price(page, "winner")).to_have_text("–")
    rates.fill("")
    expect(error).to_contain_text("Give two or more values")
    page.get_by_role("button", name="Start the search").click()
    expect(error).to_contain_text("2 or more to choose from, got 0")
    expect(rates).to_be_focused()
    rates.fill("4 8")
    expect(error).to_be_hidden()
    page.get_by_label("Trials on average").fill("0")
    expect(error).to_contain_text("at least 1")
    page.get_by_role("button", name="Close").click()
    expect(opener(page)).to_be_focused()
    expect(page.locator("#learning_rate")).to_have_value("4.0")


def test_a_search_is_stopped_and_says_that_nothing_was_released(open_page):
    page = open_page(at(TINY | {"steps": 3000}))
    opener(page).click()
    expect(price(page, "winner")).to_have_text(re.compile(r"^\d"))
    page.get_by_role("button", name="Start the search").click()
    page.get_by_role("button", name="Stop run").click()
    expect(status(page)).to_have_text("Stopped")
    heading = page.locator('[data-chart="winner"] [data-conclusion]')
    expect(heading).to_have_text("It ended before its winner was released")
    expect(status(page, "winner")).to_have_text("–")
