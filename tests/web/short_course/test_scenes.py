"""The short course: its scenes show what the widgets and the accountant say."""

import json
import math

import pytest
from markupsafe import Markup

from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.chapters.text import unbroken
from dpsgd_explorer.web.hub.widgets.noise import widget as noise
from dpsgd_explorer.web.short_course import scenes
from tests.web.reading import Page

ADDRESS = "/learn/short/"


@pytest.fixture(scope="module")
def text(reading):
    return reading.get(ADDRESS, buffered=True).text


def test_the_slider_goes_from_a_clear_attack_to_a_broken_model():
    levels = scenes.data()["levels"]
    limits = [float(level["limit"]) for level in levels]
    assert limits[0] >= noise.CLEAR
    assert limits == sorted(limits, reverse=True)
    assert levels[-1]["is_broken"]
    assert not levels[0]["is_merged"]
    merged = [level for level in levels if level["is_merged"]]
    assert any(not level["is_broken"] for level in merged), "privacy is nearly free"
    assert len({level["words"] for level in levels}) == 4


def test_the_curves_overlap_as_much_as_the_limit_says():
    data = scenes.data()
    step = data["places"][1] - data["places"][0]
    for level in data["levels"]:
        pairs = zip(level["with"], data["without"], strict=True)
        apart = sum(abs(a - b) for a, b in pairs) * step / 2
        assert float(level["limit"]) == pytest.approx(50 * (1 + apart), abs=0.6)


def test_the_attack_is_easy_first_and_then_nearly_a_coin():
    data = scenes.data()
    easy, hard = (data["levels"][game["level"]] for game in data["attack"]["games"])
    assert float(easy["limit"]) >= noise.CLEAR
    assert noise.COIN < float(hard["limit"]) < 60
    assert all(game["guesses"] % 2 == 0 for game in data["attack"]["games"])


def test_each_idea_has_60_to_90_words_and_a_chapter():
    assert len(scenes.IDEAS) == 6
    numbers = [CHAPTERS[idea.slug].number for idea in scenes.IDEAS]
    assert numbers == sorted(set(numbers))
    for idea in scenes.IDEAS:
        assert 60 <= len(idea.text.split()) <= 90, idea.title
    assert f"{math.exp(8):,.0f}" in scenes.IDEAS[1].text
    assert f"{math.exp(1):.1f}" in scenes.IDEAS[1].text


def test_without_script_the_page_has_a_picture_of_each_scene_and_its_ways_on(text):
    page = Page(text)
    assert len([a for a in page.all("section") if "data-scene" in a]) == 5
    for picture in scenes.pictures().values():
        assert str(picture.wide) in text
        assert unbroken(Markup(picture.title)) in text
    links = {a["href"] for a in page.all("a") if "href" in a}
    assert {f"/learn/{idea.slug}/" for idea in scenes.IDEAS} <= links
    assert "/train/" in links
    data = text.split("data-course-data>", 1)[1].split("</script>", 1)[0]
    assert json.loads(data) == json.loads(json.dumps(scenes.data()))
