"""Every widget of the chapters on a phone: at most one screen, and letters to read."""

import pytest

from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.registry import WIDGETS

MOST_HEIGHT = 640  # px, on a page of 390 by 844
LEAST_LETTER = 14  # px, as rendered; without the scripts of formulas

MEASURED = """(figures, least) => figures.map((figure) => {
  const seen = [...figure.querySelectorAll("*")].filter((one) => one.checkVisibility());
  const zoom = (one) => {
    const svg = one.closest("svg");
    const wide = svg?.viewBox.baseVal?.width;
    return wide ? svg.getBoundingClientRect().width / wide : 1;
  };
  const says = (one) =>
    [...one.childNodes].some(({nodeType, data}) => nodeType === 3 && data.trim());
  const isSmall = (one) =>
    parseFloat(getComputedStyle(one).fontSize) * zoom(one) < least - 0.05;
  const scrolls = (one) => one.scrollWidth > one.clientWidth + 1
    && /auto|scroll/.test(getComputedStyle(one).overflowX);
  const isControl = (one) => one.matches("button, input, select, [role=slider]");
  return {
    id: figure.id,
    state: figure.dataset.state,
    height: figure.getBoundingClientRect().height,
    small: seen
      .filter((one) => says(one) && !one.closest("math, .visually-hidden"))
      .filter(isSmall).map((one) => one.textContent),
    scrolling: seen.filter(scrolls).map((one) => one.className),
    controls: seen.filter(isControl).length,
  };
})"""
TWO_FRAMES = """() => new Promise(
  (done) => requestAnimationFrame(() => requestAnimationFrame(done)))"""


@pytest.mark.long("every page")
@pytest.mark.parametrize("slug", CHAPTERS)
def test_a_widget_fills_at_most_one_screen_of_a_phone(open_page, slug):
    page = open_page(f"/learn/{slug}/", size=(390, 844), reduced_motion="reduce")
    skip = page.get_by_role("button", name="Skip the guess")
    while skip.count():
        skip.first.click()
    figures = page.locator("[data-widget][data-state]")
    page.wait_for_function(
        "() => !document.querySelector('[data-widget]:not([data-state])')"
    )
    page.evaluate(TWO_FRAMES)
    measured = figures.evaluate_all(MEASURED, LEAST_LETTER)
    assert {one["id"] for one in measured} >= {
        name for name, widget in WIDGETS.items() if widget.chapter == slug
    }
    for one in measured:
        assert one["state"] == "moves", one
        assert one["height"] <= MOST_HEIGHT, one
        assert one["small"] == [], one
        assert one["scrolling"] == [], one
        assert one["controls"] > 0, one
