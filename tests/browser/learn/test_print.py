"""Pages on paper: whole, and without what only a screen can do."""

import pytest
from playwright.sync_api import expect

CUT = """() => [...document.querySelectorAll("main *")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !one.closest(".visually-hidden"))
  .filter((one) => {
    const {left, right} = one.getBoundingClientRect();
    return left < -1 || right > innerWidth + 1;
  })
  .map((one) => one.outerHTML.slice(0, 80))"""


@pytest.mark.long("more journeys")
def test_printed_a_chapter_shows_its_picture_guessed_or_not(open_page):
    page = open_page("/learn/sgd-basics/")
    widget = page.locator("#one-odd-record")
    expect(widget).to_have_attribute("data-state", "moves")
    page.emulate_media(media="print")
    still = page.locator("#one-odd-record [data-still] svg:visible")
    expect(still).to_have_count(1)
    for part in (".predict-question", "#one-odd-record [data-live]"):
        expect(page.locator(part)).to_be_hidden()


@pytest.mark.long("more journeys")
@pytest.mark.parametrize("path", ["/labs/planner/", "/labs/accountants/"])
def test_a_printed_lab_is_whole_and_shows_what_was_chosen(open_page, path):
    page = open_page(path, size=(680, 960))
    expect(page.locator(".badge").first).to_be_visible()
    page.emulate_media(media="print")
    assert page.evaluate(CUT) == []
    expect(page.locator("input[type=range]:visible, .button:visible")).to_have_count(0)


@pytest.mark.long("more journeys")
@pytest.mark.parametrize("path", ["/learn/per-sample-gradients/", "/teach/intro/"])
def test_on_paper_nothing_is_cut_or_folded_and_links_show_where_they_lead(
    open_page, path
):
    page = open_page(path, size=(680, 960))  # A4 between its margins
    page.emulate_media(media="print", color_scheme="dark")
    for part in (".rail", ".track", ".read-mark", ".site-footer", ".only-narrow svg"):
        expect(page.locator(f"{part}:visible")).to_have_count(0)
    for code in page.locator("details.fold pre").all():
        assert code.bounding_box()["height"] > 100
    assert page.evaluate(CUT) == []
    links = page.locator(".try a, .plan-steps li li a:visible").all()
    assert links
    for link in links:
        words = link.evaluate("(link) => getComputedStyle(link, '::after').content")
        assert link.get_attribute("href") in words
    scheme = "() => getComputedStyle(document.documentElement).colorScheme"
    assert page.evaluate(scheme) == "light"
