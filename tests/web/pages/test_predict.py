"""Guesses before pictures: each asks two things, and each answer is on the page."""

import json
import re

import pytest

from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from tests.web.reading import Page

GUESS = re.compile(r"<(?:div|fieldset) [^>]*data-guess[^>]*>")


@pytest.fixture(scope="module")
def questions(read):
    """Of all chapters: (chapter, name, markup) of each pair of guesses."""
    found = []
    for slug in CHAPTERS:
        for name, text in re.findall(
            r'data-predict="([\w-]+)">(.*?data-said)', read(slug), re.DOTALL
        ):
            found.append((slug, name, text))
    return found


def test_the_chapters_with_widgets_ask_first(questions):
    assert {"dp-concepts", "sgd-basics", "dpsgd-intro"} <= {q[0] for q in questions}


def test_a_question_asks_two_things_before_one_picture(read, questions):
    for slug, name, text in questions:
        guesses = [Page(tag).elements[0][1] for tag in GUESS.findall(text)]
        assert len(guesses) == 2, name
        for guess in guesses:
            assert re.search(r"\d|\w{3}", guess["data-answer"])
            place = json.loads(guess.get("data-at", '{"x": 0}'))
            assert len(place) == 1
            assert set(place) <= {"x", "y"}
        page = read(slug)
        assert page.count(f'data-predicted="{name}"') == 1
        picture = page.split(f'data-predicted="{name}"')[1]
        assert re.match(r"[^<]*>\s*<figure", picture), "a picture follows"
        assert page.index(f'data-predict="{name}"') < page.index(
            f'data-predicted="{name}"'
        )


def test_sliders_hold_their_first_value(questions):
    for _, name, text in questions:
        for slider in (a for _, a in Page(text).elements if a.get("type") == "range"):
            low, high, value = (float(slider[k]) for k in ("min", "max", "value"))
            assert low < value < high, name
            steps = (value - low) / float(slider["step"])
            assert abs(steps - round(steps)) < 1e-9, f"{name}: not on its marks"
