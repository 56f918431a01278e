"""Pages hold with their own fonts, and with three sets of a machine's if those fail.

Each test checks that the browser uses the fonts that the test means.
"""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TINY, _clean_pages
from tests.browser.site.fonts import FONT_SETS, write_font_set
from tests.browser.site.test_pages import open_everything, too_narrow
from tests.browser.train.test_train import WATCH_FOR_SHIFTS
from tests.browser.trainer import REFUSED, at, planned, run_button, status

pytestmark = pytest.mark.long("every font set")
PAGES = (
    "/",
    "/learn/dpsgd-intro/",
    "/labs/accountants/",
    "/labs/planner/",
    "/labs/engines/",
    "/labs/attack/",
    "/labs/reconstruct/",
    "/labs/linear-regression/",
    "/runs/",
    "/train/",
)
WIDTHS = (390, 820, 1280)
CUT_OFF = """() => {
  const short = ".button, .segmented span, .status dd, .plan dd, .badge";
  return [...document.querySelectorAll(short)]
    .filter((one) => one.offsetParent && one.scrollWidth > one.clientWidth + 1
      && getComputedStyle(one).display !== "inline")
    .map((one) => one.outerHTML.slice(0, 80));
}"""

#: The boxes of letters, without the space that a font leaves between lines.
WRITTEN = """texts => texts.map(text => {
  const {x, width} = text.getBBox();
  const height = parseFloat(getComputedStyle(text).fontSize);
  return {x, y: Number(text.getAttribute("y")) - height, width, height: 1.2 * height};
})"""


@pytest.fixture(scope="module", params=["own", *FONT_SETS])
def fonts(request, launch, tmp_path_factory, address):
    """A browser with one set of fonts: how it opens pages, and the family."""
    own = request.param == "own"
    families = FONT_SETS["dejavu" if own else request.param]
    file = write_font_set(families, tmp_path_factory.mktemp("fonts"))
    browser = launch(FONTCONFIG_FILE=str(file))
    context = browser.new_context()
    if not own:  # without this sheet the pages name fonts that the machine lacks
        context.route(
            "**/css/fonts.css",
            lambda route: route.fulfill(body="", content_type="text/css"),
        )
    with _clean_pages(browser, context, address) as open_page:
        yield open_page, "Inter" if own else families[0]
    context.close()
    browser.close()


def family_of(page, selector):
    """Return the font that the browser draws an element with."""
    inside = page.context.new_cdp_session(page)
    inside.send("DOM.enable")
    inside.send("CSS.enable")
    root = inside.send("DOM.getDocument")["root"]["nodeId"]
    node = inside.send("DOM.querySelector", {"nodeId": root, "selector": selector})
    used = inside.send("CSS.getPlatformFontsForNode", {"nodeId": node["nodeId"]})
    return max(used["fonts"], key=lambda font: font["glyphCount"])["familyName"]


def test_nothing_is_too_small_too_wide_or_cut_off(fonts, address):
    open_page, family = fonts
    page = open_page(PAGES[0], expected=[REFUSED])
    faults = {}
    for path in PAGES:
        page.goto(address + path)
        assert family_of(page, "nav.site-nav a") == family
        if path == "/train/":
            open_everything(page)
        for width in WIDTHS:
            faults[path, width] = too_narrow(page, width) + page.evaluate(CUT_OFF)
    assert {where: found for where, found in faults.items() if found} == {}


def test_a_run_moves_nothing(fonts):
    open_page, _ = fonts
    page = open_page(at(TINY | {"steps": 60}))
    expect(planned(page)).to_have_text("1.00")
    expect(page.locator(".accuracy-box .main-svg").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.evaluate(WATCH_FOR_SHIFTS)
    run_button(page).click()
    expect(status(page)).to_have_text("Finished")
    expect(page.locator("[data-latest-runs]")).to_contain_text("%")
    assert page.evaluate("() => globalThis.moved") < 0.005


def test_names_and_numbers_of_the_race_do_not_meet(fonts):
    open_page, _ = fonts
    page = open_page("/labs/accountants/")
    page.set_viewport_size({"width": 1280, "height": 844})
    words = page.locator(".race-box svg :is(.halo, .ink)")
    expect(words.filter(has_text="Advanced composition")).to_have_count(1)
    boxes = words.evaluate_all(WRITTEN)
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            assert not meet(one, other), (one, other)


def meet(a, b):
    """Whether two boxes share more than a pixel."""
    return all(
        a[at] + a[size] > b[at] + 1 and b[at] + b[size] > a[at] + 1
        for at, size in (("x", "width"), ("y", "height"))
    )
