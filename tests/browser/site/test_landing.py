"""The landing page in a browser: one slider with two goals."""

import re
import time

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.hub.widgets.noise import widget as noise

#: Slow fonts on purpose; shifts are counted from the first paint on.
WATCH_FROM_THE_START = """
globalThis.moved = 0;
new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) globalThis.moved += shift.value;
}).observe({type: "layout-shift", buffered: true});"""


def test_by_keyboard_the_curves_merge_and_the_model_breaks(open_page):
    page = open_page("/", reduced_motion="reduce")
    figure = page.locator("#noise")
    expect(figure).to_have_attribute("data-state", "moves")
    slider = page.get_by_role("slider", name="Noise")
    merged = [level["is_merged"] for level in noise.data()["levels"]].index(True)
    assert merged <= 5
    for _ in range(merged):
        slider.press("ArrowRight")
    level = noise.data()["levels"][merged]
    expect(figure.locator("[data-goal=merge]")).to_have_class("done")
    expect(figure.locator("[data-goal=break]")).to_have_class("next")
    expect(figure.locator('[data-part="limit"]')).to_have_text(level["limit"])
    expect(figure.locator('[data-part="accuracy"]')).to_have_text(level["accuracy"])
    expect(figure.locator("use.hidden-in-noise")).to_have_count(1)
    run = figure.get_by_role("link", name="Run it for real")
    sigma = re.escape(level["noise"])
    expect(run).to_have_attribute("href", re.compile(f"multiplier={sigma}#start$"))
    slider.press("End")
    expect(figure.locator("[data-goal=break]")).to_have_class("done")


def test_late_fonts_hardly_move_the_page(open_page):
    page = open_page("/about/")
    page.add_init_script(WATCH_FROM_THE_START)

    def late(route):
        time.sleep(0.1)
        route.continue_()

    page.route("**/*.woff2", late)
    page.goto(page.url.removesuffix("about/"))
    page.evaluate("() => document.fonts.ready")
    expect(page.locator("#noise")).to_have_attribute("data-state", "moves")
    page.wait_for_timeout(200)
    assert page.evaluate("() => document.fonts.check('16px Inter')")
    assert page.evaluate("() => globalThis.moved") <= 0.05


@pytest.mark.long("more journeys")
def test_without_script_the_landing_page_shows_the_curves_and_all_numbers(open_page):
    page = open_page("/", java_script_enabled=False)
    expect(page.locator("#noise .stage svg")).to_have_count(1)
    expect(page.get_by_role("slider", name="Noise")).to_be_hidden()
    page.get_by_text("Show as table").click()
    rows = page.locator("#noise tbody tr")
    expect(rows).to_have_count(len(noise.levels()))
