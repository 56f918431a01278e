"""Every widget: in its chapter, alone under /embed/, readable without script."""

import json
import re
from dataclasses import replace
from importlib import import_module

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.http import assets
from dpsgd_explorer.web.http.headers import SECURITY_HEADERS
from dpsgd_explorer.web.hub.chapters import readings
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.registry import WIDGETS
from dpsgd_explorer.web.hub.widgets.noise import widget as noise
from dpsgd_explorer.web.pages.embed import positions
from tests.web.reading import Page, script_of

FOLDER = assets.WIDGETS_DIR
MOST_BYTES = 35_000  # of a widget's JSON


def policy(answer):
    return dict(
        directive.split(" ", 1)
        for directive in answer.headers["Content-Security-Policy"].split("; ")
    )


def test_every_folder_of_a_widget_has_a_line_in_a_chapter():
    folders = {path.parent for path in FOLDER.glob("*/widget.py")}
    folders.remove(noise.WIDGET.folder)  # stands on the landing page
    assert folders == {widget.folder for widget in WIDGETS.values()}
    for slug, widget in WIDGETS.items():
        assert widget.slug == slug


@pytest.mark.parametrize("slug", WIDGETS)
def test_a_widget_has_its_script_and_says_what_it_teaches(slug):
    widget = WIDGETS[slug]
    script = script_of(widget)
    assert "export function mount(element, data)" in script
    text = import_module(widget.picture.__module__).__doc__
    for part in ("Misconception", "Content", "Source"):
        assert re.search(rf"^{part}: \S", text, re.MULTILINE), part


@pytest.mark.parametrize("slug", WIDGETS)
def test_a_widget_stands_in_its_chapter_with_a_picture_and_a_table(reading, slug):
    chapter = reading.get(f"/learn/{WIDGETS[slug].chapter}/").text
    [figure] = re.findall(rf'<figure [^>]*id="{slug}".*?</figure>', chapter, re.DOTALL)
    still, live = figure.split("data-live hidden")
    assert still.count('role="img" aria-label="') == 2  # wide and narrow
    assert '<table class="data">' in still
    assert re.search(r'class="badge (recorded|computed|illustration)"', still)
    assert "data-part" in live


@pytest.mark.parametrize("slug", WIDGETS)
def test_what_a_script_starts_from_is_small_and_strict_json(reading, slug):
    texts = []
    for address in (f"/embed/{slug}/", f"/learn/{WIDGETS[slug].chapter}/"):
        page = reading.get(address).text
        [figure] = re.findall(rf'<figure [^>]*id="{slug}".*?</figure>', page, re.DOTALL)
        [text] = re.findall(r"data-widget-data>(.*?)</script>", figure, re.DOTALL)
        assert json.loads(text, parse_constant=pytest.fail)
        texts.append(text)
    assert texts[0] == texts[1]  # also small numbers, which prose keeps on one line
    assert len(texts[0]) < MOST_BYTES


@pytest.mark.parametrize("slug", WIDGETS)
def test_alone_a_widget_may_be_framed_and_nothing_else_may(reading, slug):
    alone = reading.get(f"/embed/{slug}/")
    assert alone.status_code == 200
    assert policy(alone)["frame-ancestors"] == "*"
    assert alone.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    whole = reading.get(f"/learn/{WIDGETS[slug].chapter}/")
    assert (
        whole.headers["Content-Security-Policy"]
        == (SECURITY_HEADERS["Content-Security-Policy"])
    )
    same = policy(alone) | {"frame-ancestors": policy(whole)["frame-ancestors"]}
    assert same == policy(whole)
    page = Page(alone.text)
    assert len(page.all("h1")) == len(page.all("main")) == 1
    chapter = CHAPTERS[WIDGETS[slug].chapter]
    *doors, back = page.all("a")
    assert back["href"] == f"/learn/{chapter.slug}/#{slug}"
    for link in (*doors, back):
        assert link["target"] == "_top"
        assert reading.get(link["href"]).status_code == 200


def test_an_unknown_widget_is_not_found_and_shows_the_way_back(reading):
    answer = reading.get("/embed/nope/", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert policy(answer)["frame-ancestors"] == "*"
    ways = [a for a in Page(answer.text).all("a") if "button" in a.get("class", "")]
    assert {"/", "/learn/"} <= {a["href"] for a in ways}
    assert all(a["target"] == "_top" for a in ways)
    elsewhere = reading.get("/embed/", headers={"Accept": "text/html"})
    assert elsewhere.status_code == 404
    assert policy(elsewhere)["frame-ancestors"] == "'none'"


def test_a_widget_that_cannot_be_computed_costs_its_chapter_one_line(
    reading, monkeypatch, caplog
):
    def no_picture():
        raise ValueError("no picture today")

    slug = "one-odd-record"
    chapter = WIDGETS[slug].chapter
    sound = WIDGETS[slug]
    others = sum(w.chapter == chapter for w in WIDGETS.values()) - 1
    broken = replace(sound, picture=no_picture)
    monkeypatch.setitem(WIDGETS, slug, broken)
    address = f"/learn/{chapter}/?fresh"  # not the page that is cached
    monkeypatch.setattr(readings, "_READINGS", {})
    answer = reading.get(address)
    assert answer.status_code == 200
    assert "cannot be shown at the moment" in answer.text
    assert answer.text.count('data-widget="') == others
    assert 'id="sources"' in answer.text
    assert "no picture today" in caplog.text
    assert not is_kept(reading, chapter)
    monkeypatch.setitem(WIDGETS, slug, sound)
    again = reading.get(address).text  # it failed once, and is not cached as failed
    assert f'id="{slug}" data-widget="' in again
    assert "cannot be shown at the moment" not in again
    assert is_kept(reading, chapter)


def is_kept(client, chapter):
    """Whether what a lesson plan reads in the chapter is kept for the next one."""
    with client.application.test_request_context():
        readings.reading_of(CHAPTERS[chapter])
    return chapter in readings._READINGS


@pytest.mark.parametrize("slug", WIDGETS)
def test_a_script_has_no_table_of_colours(slug):
    """Colours of methods are data of the server, whose picture has the same ones."""
    script = script_of(WIDGETS[slug])
    table = r"\w+: ['\"](private|good|attack|budget|twin)['\"]"
    assert not re.search(rf"\{{[^}}]*{table}[^}}]*{table}", script)


def test_a_step_of_a_chapter_names_a_control_and_a_value_of_its_widget():
    survey = "randomised-response"
    assert positions(survey, {"people": 100, "coins": 2}) == {
        "people": (0,),
        "coins": (2,),
    }
    for wrong in ({"people": 101}, {"crowd": 1}):
        with pytest.raises(ConfigError, match=r"A survey on yourself|must be one"):
            positions(survey, wrong)
