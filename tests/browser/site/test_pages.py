"""Every page that exists: no fault, readable by all, at home on a telephone."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import TimeoutError, expect

from dpsgd_explorer.web.hub.registry import WIDGETS
from tests.browser.conftest import TINY
from tests.browser.trainer import REFUSED, at, run_to_the_end, unfold

LEVELS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]
EVERY_RULE = {"type": "tag", "values": LEVELS}
OF_COLOUR = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
OWN_LINKS = """() => [...document.querySelectorAll("a[href]:not([download])")]
  .map((link) => new URL(link.getAttribute("href"), location.href))
  .filter(({origin, pathname}) => origin === location.origin
    && !/^\\/(api|static)\\//.test(pathname) && pathname !== "/openapi.json")
  .map(({pathname}) => pathname)"""
FITS = "() => document.documentElement.scrollWidth <= innerWidth"
SETTLING_MS = 30_000  # charts are drawn again after a change, late on a busy machine
SMALL_TARGETS = """() => [...document.querySelectorAll("a,button,input,summary,select")]
  .filter((one) => {
    const box = one.getBoundingClientRect();
    const inText = getComputedStyle(one).display === "inline";
    return box.width && box.height && !inText && box.height < 24
      && !/radio|checkbox/.test(one.type);
  }).map((one) => one.outerHTML.slice(0, 80))"""


def in_both_themes(page, axe):
    """Return what axe finds wrong; in the dark only the colours can differ."""
    page.evaluate(axe)
    return axe_faults(page, "light", EVERY_RULE) + axe_faults(page, "dark", OF_COLOUR)


def axe_faults(page, scheme, rules):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.evaluate("() => scrollTo(0, 0)")  # what is pinned covers nothing there
    found = page.evaluate("async (runOnly) => await axe.run({runOnly})", rules)
    assert found["passes"], "axe has checked nothing"
    return [
        (scheme, fault["id"], [node["target"] for node in fault["nodes"][:3]])
        for fault in found["violations"]
    ]


def crawl(page, address):
    """Visit everything that can be reached by links; yield each path once."""
    waiting, seen = ["/"], set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        assert page.goto(address + path).status == 200, path
        waiting += page.evaluate(OWN_LINKS)
        yield path


@pytest.mark.long("every page")
@pytest.mark.timeout(1800)  # some eighty pages, each eight times
def test_every_page_is_sound_for_all_eyes_and_on_a_telephone(open_page, address, axe):
    page = open_page(at(TINY), expected=[REFUSED])
    run_to_the_end(page)
    open_everything(page)
    assert in_both_themes(page, axe) == []
    found, visited = {}, set()
    for path in crawl(page, address):
        visited.add(path.split("/")[1])
        seen = path == "/train/"  # above, with more on it
        found[path] = ([] if seen else in_both_themes(page, axe)) + too_narrow(page)
    assert {path: faults for path, faults in found.items() if faults} == {}
    assert visited >= {"", "learn", "train", "runs"}
    assert any(urlsplit(path).path.count("/") == 3 for path in found)


@pytest.mark.long("every page")
@pytest.mark.timeout(900)  # some eighty pages
def test_no_page_scrolls_sideways_at_320_px(open_page, address, finished_run):
    page = open_page("/", size=(320, 800))
    wide = [path for path in crawl(page, address) if not fits(page)]
    page.goto(f"{address}/runs/{finished_run['id']}/")
    expect(page.locator("[data-replay]")).to_be_visible()
    assert [*wide, *([] if fits(page) else [page.url])] == []


def fits(page):
    try:
        page.wait_for_function(FITS, timeout=SETTLING_MS)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("path", ["/", "/learn/dpsgd-intro/", "/train/"])
def test_a_page_is_sound_for_all_eyes_and_on_a_telephone(open_page, axe, path):
    page = open_page(path, expected=[REFUSED])
    if path == "/train/":
        open_everything(page)
    assert in_both_themes(page, axe) + too_narrow(page) == []


@pytest.mark.long("every page")
@pytest.mark.parametrize("slug", WIDGETS)
def test_a_widget_alone_is_sound_for_all_eyes_and_on_a_telephone(open_page, axe, slug):
    page = open_page(f"/embed/{slug}/")
    expect(page.locator('[data-widget][data-state="moves"]')).to_be_visible()
    assert in_both_themes(page, axe) + too_narrow(page) == []


def open_everything(page):
    """Bring the trainer into the state with the most on it, an error included."""
    for button in page.locator("[data-show-table]:visible").all():
        button.click()
    for fold in page.locator("details").all():
        fold.evaluate("(fold) => { fold.open = true; }")
    unfold(page)
    page.get_by_label("Learning rate η", exact=True).fill("-1")
    expect(page.locator('[data-field="learning_rate"] .error')).to_be_visible()


def too_narrow(page, width=390):
    """Return what hangs over the side of a telephone, or is too small to hit."""
    page.set_viewport_size({"width": width, "height": 844})
    faults = page.evaluate(SMALL_TARGETS)
    try:
        page.wait_for_function(FITS, timeout=SETTLING_MS)
    except TimeoutError:
        faults.append("wider than the screen")
    page.set_viewport_size({"width": 1280, "height": 844})
    return faults
