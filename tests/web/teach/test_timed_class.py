"""The class of 90 minutes: its plan, its screens, and the count of hands."""

import math
import re
from itertools import pairwise

import pytest

from dpsgd_explorer.web.teach.timed_class import (
    MISCONCEPTIONS,
    STEPS,
    Tally,
    sheet_questions,
)

PLAN = "/teach/90-minutes/"


def test_the_steps_fill_90_minutes_without_a_gap():
    assert [step.number for step in STEPS] == list(range(1, len(STEPS) + 1))
    assert STEPS[0].begins == 0
    assert all(a.ends == b.begins for a, b in pairwise(STEPS))
    assert STEPS[-1].ends == 90


def test_the_plan_has_each_step_the_sheet_and_its_key(client):
    page = client.get(PLAN).get_data(as_text=True)
    for step in STEPS:
        assert step.title in page
        assert f'href="{PLAN}{step.number}/"' in page
    questions = sheet_questions()
    assert page.count('<p class="because">') == len(questions)
    assert page.count("<strong>(right)</strong>") == len(questions)


def test_every_section_that_a_misconception_names_is_in_its_chapter(client):
    for _, _, slug, anchor in MISCONCEPTIONS:
        chapter = client.get(f"/learn/{slug}/").get_data(as_text=True)
        assert f'id="{anchor}"' in chapter, (slug, anchor)


@pytest.mark.parametrize("step", STEPS, ids=[step.title for step in STEPS])
def test_a_screen_shows_its_question_and_its_widget_alone(client, step):
    page = client.get(f"{PLAN}{step.number}/").get_data(as_text=True)
    assert step.question in page
    assert page.count("data-widget=") == bool(step.widget)
    assert "site-nav" not in page
    assert ('rel="next"' in page) == (step is not STEPS[-1])
    if step.link:
        address = re.search(r'class="opens"><a href="([^"]+)"', page)[1]
        assert client.get(address).status_code == 200


def test_there_is_no_screen_before_the_first_or_after_the_last(client):
    for number in (0, len(STEPS) + 1):
        assert client.get(f"{PLAN}{number}/").status_code == 404


def test_the_estimate_inverts_the_two_coins():
    for truth in (0.0, 0.2, 1.0):
        yes = 1000 * (truth / 2 + 1 / 4)  # heads: the truth; tails: yes by half
        assert Tally(1000, round(yes)).share == pytest.approx(truth)


def test_the_error_is_the_spread_of_many_classes():
    tally = Tally(30, 11)
    recorded = tally.share / 2 + 1 / 4
    assert tally.error == pytest.approx(2 * math.sqrt(recorded * (1 - recorded) / 30))


def test_an_impossible_share_is_shown_as_0_with_what_the_coins_gave(client):
    page = client.get(f"{PLAN}1/?asked=20&yes=2").get_data(as_text=True)
    assert re.search(r"<output>About <b[^>]*>0 in 100</b>", page)
    assert "gave -30" in page


@pytest.mark.parametrize(
    "query", ["asked=30", "yes=3", "asked=3&yes=4", "asked=0&yes=0", "asked=²&yes=1"]
)
def test_an_impossible_count_is_an_error_that_names_it(client, query):
    answer = client.get(f"{PLAN}1/?{query}", headers={"Accept": "text/html"})
    assert answer.status_code == 422
    assert "must be from" in answer.get_data(as_text=True)


def test_the_coin_facts_in_the_plan_are_right():
    ways = [math.comb(10, k) / 2**10 for k in range(11)]
    assert sum(ways[4:7]) == pytest.approx(2 / 3, abs=0.02)
    assert sum(ways[7:]) == pytest.approx(1 / 6, abs=0.01)


def test_the_screen_of_the_training_shows_the_link_of_the_own_class(client):
    made = client.post("/api/v1/classes", json={"name": "Statistics 2"})
    page = client.get(f"{PLAN}6/").get_data(as_text=True)
    assert made.json["links"]["student"] in page
    other = client.application.test_client().get(f"{PLAN}6/").get_data(as_text=True)
    assert "Statistics 2" not in other
