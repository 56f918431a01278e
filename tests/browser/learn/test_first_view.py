"""A chapter opens on its widget, after a guess or not: enough is in view to play."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.hub.chapters.table import CHAPTERS

ROOT = Path(__file__).resolve().parents[3]
PLAYS = (ROOT / "static/js/widgets/common/play_once.js").read_text()
SHARE = float(re.search(r"const SEEN = ([0-9.]+);", PLAYS)[1])
IN_VIEW = """(widget) => {
  const {top, bottom, height} = widget.getBoundingClientRect();
  return (Math.min(innerHeight, bottom) - Math.max(0, top)) / height;
}"""


@pytest.mark.long("every page")
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_the_first_view_of_a_chapter_shows_enough_of_its_widget(open_page, size):
    page = open_page("/learn/", size=size, reduced_motion="reduce")
    shares = {}
    for slug in CHAPTERS:
        page.goto(page.url.split("/learn/")[0] + f"/learn/{slug}/")
        widget = page.locator(".opening [data-widget]")
        skip = page.locator(".opening").get_by_role("button", name="Skip the guess")
        if skip.count():
            skip.click()
        expect(widget).to_have_attribute("data-state", "moves")
        shares[slug] = widget.evaluate(IN_VIEW)
    assert SHARE > 0.3
    assert {slug: share for slug, share in shares.items() if share < SHARE} == {}
