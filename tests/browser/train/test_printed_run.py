"""A run on paper: its last words, in dark ink, whole and without buttons."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TINY
from tests.browser.learn.test_print import CUT
from tests.browser.trainer import at, run_to_the_end

# Registered after the page's own listener, so it sees what will be printed.
KEEP_WORDS = """() => addEventListener("beforeprint", () => {
  const chart = document.querySelector('[data-chart="accuracy"]');
  window.printed = {
    heading: chart.querySelector("[data-conclusion]").textContent,
    state: document.querySelector('[data-status="state"]').textContent,
    ink: getComputedStyle(chart.querySelector(".main-svg .xtick text, .main-svg text"))
      .fill.match(/\\d+/g).slice(0, 3).map(Number),
  };
})"""
CONTROLS = "button:visible, .button:visible, input[type=range]:visible, .views:visible"
LIGHT = 160  # of 255: dark ink has less


@pytest.mark.long("more journeys")
@pytest.mark.parametrize("path", ["run", "trainer"])
def test_a_printed_run_has_its_last_words_and_no_buttons(open_page, finished_run, path):
    if path == "run":
        page = open_page(f"/runs/{finished_run['id']}/", color_scheme="dark")
    else:
        page = open_page(at(TINY), color_scheme="dark")
        run_to_the_end(page)
    heading = page.locator('[data-chart="accuracy"] [data-conclusion]')
    expect(heading).to_contain_text("at ε = 1.00")
    expect(page.locator('[data-chart="accuracy"] .main-svg').first).to_be_visible()
    final = heading.inner_text()
    if path == "run":  # a replay in its middle
        page.get_by_label("Step of the replay").fill("5")
        expect(heading).not_to_have_text(final)
    page.evaluate(KEEP_WORDS)
    assert page.pdf(format="A4").startswith(b"%PDF")
    printed = page.evaluate("() => window.printed")
    assert printed["heading"] == final
    assert printed["state"] == "Finished"
    assert max(printed["ink"]) < LIGHT, printed

    page.set_viewport_size({"width": 680, "height": 960})  # A4 between its margins
    page.emulate_media(media="print", color_scheme="light")
    expect(page.locator(CONTROLS)).to_have_count(0)
    for chart in ("accuracy", "norms"):
        expect(page.locator(f'[data-chart="{chart}"] .main-svg').first).to_be_visible()
    assert page.evaluate(CUT) == []
