"""The landing page in a browser: a guided first visit, the slider, the question."""

import re
import urllib.request

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.hub.chapters.text import WORDS_A_MINUTE

RATIO = re.compile("privacy comes from the ratio")
MOST_ACTIONS = 6
MOST_SECONDS = 60  # as the guide says
TICK_MS = 50  # of the page's clock after an action: two frames and more
COUNT = """() => {
  window.actions = 0;
  const count = () => window.actions++;
  for (const kind of ["keydown", "pointerdown"]) addEventListener(kind, count, true);
}"""


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
    expect(strip).to_contain_text(f"at most {limit} times in 100")
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


@pytest.mark.long("more journeys")
def test_a_first_visit_takes_a_minute_of_reading_and_hardly_any_waiting(open_page):
    """The page's clock stands still but for one tick after each action."""
    page = open_page("/", new_visitor=True)
    page.clock.install()
    page.reload()
    strip = page.get_by_role("region", name="First visit")
    expect(page.locator("#noise")).to_have_attribute("data-state", "moves")
    read = [strip.locator("[data-words]").inner_text()]
    page.evaluate(COUNT)
    page.clock.pause_at(page.evaluate("() => Date.now() + 1000"))
    started = page.evaluate("() => Date.now()")
    for key in ("Tab", "Enter", "Tab", "Enter", "End"):
        page.keyboard.press(key)
        page.clock.run_for(TICK_MS)
        if strip.locator("[data-words]").inner_text() != read[-1]:
            read.append(strip.locator("[data-words]").inner_text())
    assert RATIO.search(read[-1])
    assert 0 < page.evaluate("() => window.actions") <= MOST_ACTIONS
    strip.get_by_role("button", name="Ask me").press("Enter")
    page.clock.run_for(TICK_MS)
    read.append(strip.locator("[data-words]").inner_text())
    question = page.locator(".quiz")
    read += question.locator("legend, label > span:first-of-type").all_inner_texts()
    page.get_by_role("radio", name="The noise multiplier").check()
    page.clock.run_for(TICK_MS)
    read.append(question.locator(".why:visible").inner_text())
    read.append(strip.locator("[data-words]").inner_text())
    expect(strip.get_by_role("button", name="Close")).to_be_visible()
    waited = (page.evaluate("() => Date.now()") - started) / 1000
    words = sum(len(text.split()) for text in read)
    assert len(read) == 11
    assert words > 100
    assert waited + 60 * words / WORDS_A_MINUTE <= MOST_SECONDS


@pytest.mark.long("more journeys")
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
    expect(run).to_have_attribute("href", re.compile("noise_multiplier=2#start$"))
    expect(strip).to_be_hidden()


@pytest.mark.long("more journeys")
def test_without_script_the_landing_page_shows_the_drawing_and_no_guide(open_page):
    page = open_page("/", java_script_enabled=False)
    expect(page.locator("#noise [data-still] svg:visible")).to_have_count(1)
    expect(page.get_by_text("New here?")).to_be_hidden()
