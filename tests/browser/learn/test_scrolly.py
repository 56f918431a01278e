"""Chapters whose opening picture stays in view beside its text and follows the text."""

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.http.assets import FRONT_DIR

WIDE, PHONE = (1280, 800), (390, 844)
SCROLLY = sorted(
    path.stem
    for path in (FRONT_DIR / "templates/learn").glob("[a-z]*.html")
    if "{% block steps %}" in path.read_text(encoding="utf-8")
)
GUESSED = [slug for slug in SCROLLY if slug != "intro"]  # its first guess comes later
READ = """(step) => {
  const top = step.firstElementChild.getBoundingClientRect().top;
  scrollBy({top: top - innerHeight * 0.44, behavior: "instant"});
}"""
#: The drawings, the heading and the positions of the controls.
STATE = """(widget) => {
  const live = widget.querySelector("[data-live]");
  return [...live.querySelectorAll("svg")].map((svg) => svg.innerHTML).join("")
    + widget.querySelector("[data-part=title]").textContent
    + [...live.querySelectorAll("input")].map((one) => one.value + one.checked);
}"""
BOX = """(element) => {
  const {left, right, top, bottom} = element.getBoundingClientRect();
  return {left, right, top, bottom, window: innerHeight};
}"""


def opened(open_page, slug, size):
    page = open_page(f"/learn/{slug}/", size=size, reduced_motion="reduce")
    widget = page.locator(".opening [data-widget]")
    expect(widget).to_have_attribute("data-state", "moves")
    return page, widget


def skip_guess(page):
    skip = page.locator(".opening").get_by_role("button", name="Skip the guess")
    if skip.count():
        skip.click()


@pytest.mark.long("every page")
@pytest.mark.parametrize("slug", SCROLLY)
def test_beside_the_text_the_picture_stays_in_view_and_follows_it(open_page, slug):
    page, widget = opened(open_page, slug, WIDE)
    skip_guess(page)
    states = []
    for step in page.locator(".text-step").all():
        step.evaluate(READ)
        expect(step).to_have_class("passage text-step now")
        beside, picture = step.evaluate(BOX), widget.evaluate(BOX)
        assert beside["right"] < picture["left"]
        in_view = min(picture["window"], picture["bottom"]) - max(0, picture["top"])
        assert in_view > 0.5 * picture["window"]
        if step.get_attribute("data-scene"):
            page.wait_for_timeout(100)  # a widget draws once per frame
            states.append(widget.evaluate(STATE))
    assert len(states) > 2
    assert len(set(states)) == len(states)
    assert picture["top"] >= 0
    assert picture["bottom"] <= picture["window"]
    slider = widget.locator("input:visible, button:visible").first
    expect(slider).to_be_enabled()


@pytest.mark.long("every page")
@pytest.mark.parametrize("slug", SCROLLY)
def test_on_a_phone_the_picture_stands_above_its_text_and_holds_still(open_page, slug):
    page, widget = opened(open_page, slug, PHONE)
    skip_guess(page)
    page.wait_for_timeout(100)
    before = widget.evaluate(STATE)
    first = page.locator(".text-step p").first
    assert widget.evaluate(BOX)["bottom"] < first.evaluate(BOX)["top"]
    for step in page.locator(".text-step").all():
        step.evaluate(READ)
    page.wait_for_timeout(100)
    assert widget.evaluate(STATE) == before


@pytest.mark.long("every page")
@pytest.mark.parametrize("slug", GUESSED)
def test_a_guess_that_nobody_made_hides_the_picture_also_beside_the_text(
    open_page, slug
):
    page, widget = opened(open_page, slug, WIDE)
    expect(page.locator(".opening .predict-question")).to_have_count(1)
    for step in page.locator(".text-step").all():
        step.evaluate(READ)
        expect(widget).to_be_hidden()
    assert not widget.get_attribute("data-scene")
