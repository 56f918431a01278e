"""Where things stand: in view, in their column, and not on each other."""

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import REFUSED, focus, run_button, unfold

WIDTHS = (320, 390, 600, 704, 705, 768, 820, 864, 865, 1024, 1088, 1280, 1440, 1920)
LEAST_CHART = 272  # px
NUMBERED = (
    "/train/",
    "/learn/dp-concepts/",
    "/learn/privacy-accounting/",
    "/labs/planner/",
    "/labs/accountants/",
)
BROKEN_NUMBERS = """() => {
  const found = [];
  const main = document.querySelector("main");
  const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const {data, parentElement} = walk.currentNode;
    if (parentElement.closest("svg, pre, script, [hidden], math")) continue;
    for (const {0: number, index} of data.matchAll(/\\d+e-\\d+/g)) {
      const range = document.createRange();
      range.setStart(walk.currentNode, index);
      range.setEnd(walk.currentNode, index + number.length);
      const lines = new Set([...range.getClientRects()].map(({top}) => top));
      if (lines.size > 1) found.push(data);
    }
  }
  return found;
}"""
RINGS = """(box) => {
  const drawn = (one) => getComputedStyle(one).boxShadow !== "none";
  return [box, box.parentElement].filter(drawn).length;
}"""


@pytest.mark.long("every page")
@pytest.mark.parametrize("path", ["/train/", "/labs/engines/"])
def test_run_is_in_view_at_every_width(open_page, path):
    page = open_page(path)
    start = page.locator("[data-run]")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        expect(start).to_be_in_viewport(ratio=1)


@pytest.mark.long("every page")
def test_settings_fit_their_column_at_every_width(open_page):
    page = open_page("/train/")
    unfold(page)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        column = page.locator("[data-settings]").bounding_box()
        for box in page.locator("[data-settings] .number:visible").all():
            at = box.bounding_box()
            assert at["x"] + at["width"] <= column["x"] + column["width"] + 0.5, width


@pytest.mark.long("every page")
def test_settings_stay_beside_the_charts_and_no_chart_is_narrow(open_page):
    page = open_page("/train/")
    charts = page.locator("[data-chart]")
    for width in (705, 820, 1000, 1088):
        page.set_viewport_size({"width": width, "height": 844})
        for chart in charts.all():
            assert chart.bounding_box()["width"] >= LEAST_CHART, width
        charts.last.scroll_into_view_if_needed()
        expect(page.locator("[data-run]")).to_be_in_viewport(ratio=1)


@pytest.mark.long("more journeys")
def test_a_box_that_is_wrong_and_typed_in_has_one_ring(open_page):
    page = open_page("/train/", expected=[REFUSED])
    unfold(page)
    rate = page.get_by_label("Learning rate η", exact=True)
    rate.fill("-1")
    expect(page.locator('[data-field="learning_rate"]')).to_have_class("field invalid")
    expect(rate).to_be_focused()
    assert rate.evaluate(RINGS) == 1
    focus(run_button(page))
    assert rate.evaluate(RINGS) == 1


@pytest.mark.long("every page")
def test_words_of_the_microscope_do_not_meet(open_page):
    page = open_page("/learn/dpsgd-intro/", java_script_enabled=False)
    for width in (705, 820, 900, 1088, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        heads = page.locator("#microscope svg:visible text.strong").all()
        left, right = (head.bounding_box() for head in heads)
        assert left["x"] + left["width"] < right["x"], width


@pytest.mark.long("every page")
def test_no_small_number_is_broken_over_two_lines(open_page, address):
    page = open_page("/train/")
    for path in NUMBERED:
        page.goto(address + path)
        for width in range(320, 1000, 40):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate(BROKEN_NUMBERS) == [], (path, width)


@pytest.mark.long("more journeys")
def test_row_heads_of_a_table_stand_on_the_line_of_their_cells(open_page):
    page = open_page("/learn/parameters/")
    page.set_viewport_size({"width": 390, "height": 844})
    aligned = page.locator("main table.data tbody :is(th, td)").evaluate_all(
        "(cells) => cells.map((cell) => getComputedStyle(cell).verticalAlign)"
    )
    assert set(aligned) == {"baseline"}
