"""The two tracks of a chapter: what each shows, and how long it takes to read."""

import math
import re

import pytest

from dpsgd_explorer.web.hub.chapters import readings
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.chapters.text import WORDS_A_MINUTE
from tests.web.reading import Page

NOT_COUNTED = ("table-toggle", "corner-mark", "sources")
SWITCH = re.compile(r'<fieldset class="track\b.*?</fieldset>', re.DOTALL)


@pytest.mark.parametrize("slug", CHAPTERS)
def test_stated_minutes_count_what_the_page_shows_its_questions_included(read, slug):
    text = read(slug)
    article = re.search(r'<p class="lede">(.*)<div class="read-mark">', text, re.DOTALL)
    counted = Words(SWITCH.sub("", article[1]), NOT_COUNTED, folds=True)
    assert {"Not", "quite"} <= set(counted.words)  # a verdict within a question
    whole = minutes_of(counted)
    assert int(re.search(r"chapter \d+ · (\d+) minutes", text)[1]) == whole
    quick = Words(SWITCH.sub("", article[1]), ("passage full", "sources"))
    minutes = {"full": whole, "intuition": minutes_of(quick)}
    switch = SWITCH.search(text)[0]
    for track, stated in minutes.items():
        label = re.search(rf'value="{track}".*?<span>(.*?)</span>', switch)[1]
        assert f", {stated} min" in label
        assert CHAPTERS[slug].minutes(track) == stated
    less = (
        "" if len(set(minutes.values())) == 1 else f", {minutes['intuition']} without"
    )
    assert f"<small>{whole} minutes{less}" in read("")


def minutes_of(shown):
    """Return the minutes of what is shown: its words, and two for each widget."""
    widgets = sum("data-widget" in a for a in shown.shown("figure"))
    return math.ceil(len(shown.words) / WORDS_A_MINUTE) + 2 * widgets


@pytest.mark.parametrize("slug", CHAPTERS)
def test_a_chapter_takes_ten_to_twenty_minutes_and_its_short_track_less(read, slug):
    stated = re.search(r"chapter \d+ · (\d+) minutes", read(slug))[1]
    assert 10 <= int(stated) <= 20
    assert CHAPTERS[slug].minutes("intuition") < int(stated)


def test_what_was_computed_ahead_is_not_computed_again(app, monkeypatch):
    readings._READINGS.clear()
    readings.compute_ahead(app)
    monkeypatch.setattr(readings, "render", None)
    for chapter in CHAPTERS.values():
        read = readings.reading_of(chapter)
        for track, counted in read.minutes.items():
            assert chapter.minutes(track) == counted


def test_the_first_visitor_of_the_site_waits_for_no_chapter(app, monkeypatch):
    def refuse(_chapter):
        raise AssertionError("a page of the hub has rendered a chapter")

    monkeypatch.setattr(readings, "reading_of", refuse)
    for path in ("/", "/learn/", "/teach/"):
        assert app.test_client().get(path).status_code == 200


def test_the_hub_adds_up_the_minutes_of_its_chapters(read):
    each = re.findall(r"<small>(\d+) minutes", read(""))
    assert len(each) == len(CHAPTERS)
    assert f"about {sum(map(int, each))} minutes" in read("")
    quick = sum(chapter.minutes("intuition") for chapter in CHAPTERS.values())
    assert f"minutes, {quick} without the formal parts (" in read("")


@pytest.mark.parametrize("slug", CHAPTERS)
def test_folds_and_code_belong_to_the_full_track_and_questions_remain(read, slug):
    text = read(slug)
    folds = [a for a in Page(text).all("details") if "fold" in a.get("class", "")]
    assert len(folds) >= 2
    assert all(a["class"].split() == ["fold", "full"] for a in folds)
    quick = Words(text, ("passage full", "fold full"))
    assert sum(a.get("class") == "quiz" for a in quick.shown("fieldset")) >= 3
    assert [a["id"] for a in quick.shown("h2") if a.get("id") == "check"] == ["check"]
    assert quick.shown("figure")


def test_a_track_is_named_by_the_address_or_refused(reading):
    page = reading.get("/learn/intro/").text
    for track in ("intuition", "full"):
        assert reading.get(f"/learn/intro/?track={track}").text == page
    refused = reading.get("/learn/intro/?track=nope", headers={"Accept": "text/html"})
    assert refused.status_code == 422
    assert "Track must be one of intuition, full" in refused.text
    assert 'href="/learn/"' in refused.text
    plan = reading.get("/teach/intro/").text
    assert 'href="/learn/intro/?track=intuition"' in plan


class Words(Page):
    """The words of a page outside of what no reader reads word by word.

    Elements of the classes in ``left_out`` are left out too.
    """

    UNREAD = ("svg", "math", "pre", "details", "script")
    VOID = ("input", "br", "img", "meta", "link", "hr")

    def __init__(self, text, left_out=("sources",), *, folds=False):
        self.left_out = left_out
        self.unread = [tag for tag in self.UNREAD if not (folds and tag == "details")]
        self.open = []  # of what is open, whether it is unread
        self.seen = []
        super().__init__(text)

    def shown(self, tag):
        return [attributes for name, attributes in self.seen if name == tag]

    def handle_starttag(self, tag, attributes):
        super().handle_starttag(tag, attributes)
        of = dict(attributes)
        left_out = of.get("class") in self.left_out or "data-still" in of
        if not any(self.open) and not left_out:
            self.seen.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(left_out or tag in self.unread)

    def handle_startendtag(self, tag, attributes):
        Page.handle_starttag(self, tag, attributes)

    def handle_endtag(self, tag):
        if tag not in self.VOID and self.open:
            self.open.pop()

    @property
    def within(self):
        return any(self.open)

    def handle_data(self, data):
        if not self.within:
            super().handle_data(data)
