"""The landing page in a browser: a guided first visit, the slider, the question."""

import re
import urllib.request

import pytest
from playwright.sync_api import expect

RATIO = re.compile("privacy comes from the ratio")
MOST_ACTIONS = 6


@pytest.fixture(scope="module", autouse=True)
def _rendered(address):
    """The first answer of a server renders every chapter, to count its minutes."""
    urllib.request.urlopen(f"{address}/").close()


def test_by_keyboard_the_first_visit_comes_to_the_ratio_in_six_actions(open_page):
    page = open_page("/", new_visitor=True, reduced_motion="reduce")
    strip = page.get_by_role("region", name="First visit")
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_visible()
    expect(page.locator("#noise")).to_have_attribute("data-state", "moves")
    slider = page.get_by_role("slider", name="Noise")
    keys = ["Tab", "Enter", "Tab", "Enter", "End"]  # past the frame, start, much noise
    assert len(keys) <= MOST_ACTIONS
    for key in keys:
        page.keyboard.press(key)
    expect(strip.get_by_text(RATIO)).to_be_visible()
    expect(slider).to_be_focused()
    figure = page.locator("#noise")
    limit = figure.locator('[data-part="limit"]').inner_text()
    expect(strip).to_contain_text(f"more than {limit} times in 100")
    strip.get_by_role("button", name="Ask me").press("Enter")
    page.keyboard.press("Space")
    expect(page.locator(".quiz .why:visible")).to_contain_text("Double C")
    page.get_by_role("radio", name="The noise multiplier").check()
    expect(page.locator(".quiz .why:visible")).to_have_text(RATIO)
    strip.get_by_role("button", name="Close").press("Enter")
    expect(strip).to_be_hidden()
    page.reload()
    expect(figure).to_have_attribute("data-state", "moves")
    expect(strip).to_be_hidden()  # once


def test_a_first_visit_can_be_skipped_and_the_slider_works_without_it(open_page):
    page = open_page("/", new_visitor=True)
    strip = page.get_by_role("region", name="First visit")
    strip.get_by_role("button", name="Skip").click()
    expect(strip).to_be_hidden()
    assert page.evaluate("() => localStorage.getItem('first-visit')") == "done"
    title = page.locator("#noise").get_by_role("heading", level=2)
    before = title.inner_text()
    slider = page.get_by_role("slider", name="Noise")
    slider.press("ArrowRight")
    expect(title).not_to_have_text(before)
    expect(slider).to_have_attribute("aria-valuetext", "2")
    run = page.locator("#noise").get_by_role("link", name="Run it for real")
    expect(run).to_have_attribute("href", re.compile("noise_multiplier=2$"))
    expect(strip).to_be_hidden()


def test_without_script_the_landing_page_shows_the_drawing_and_no_guide(open_page):
    page = open_page("/", java_script_enabled=False)
    expect(page.locator("#noise [data-still] svg:visible")).to_have_count(1)
    expect(page.get_by_text("New here?")).to_be_hidden()
