"""The accountant race: the API's curves, the page, and its surprises."""

import json
import re
import sys

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.web.labs.accountants.page import SURPRISES, RaceQuestion
from dpsgd_explorer.web.questions.accountant_race import SILENT, racers, significant
from tests.web.conftest import error_of

CURVES = "/api/v1/privacy/curves"
RUN = {"sample_rate": 0.01, "noise_multiplier": 4, "steps": 10_000, "delta": 1e-5}
STATUSES = {"exact", "bound", "approximation", SILENT}


def curves(client, **query):
    answer = client.get(CURVES, query_string=query)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_every_accountant_runs_over_the_same_steps(client):
    answer = curves(client, **RUN, points=21)
    assert [racer["accountant"] for racer in answer["curves"]] == list(racers())
    assert (answer["steps"][0], answer["steps"][-1]) == (1, 10_000)
    assert answer["steps"] == sorted(set(answer["steps"]))
    for racer in answer["curves"]:
        assert racer["status"] in STATUSES
        if racer["status"] == SILENT:
            assert racer["reason"]
            continue
        assert len(racer["epsilon"]) == len(answer["steps"])
        assert racer["epsilon"] == sorted(racer["epsilon"])


def test_a_curve_holds_the_accountants_own_values(client):
    answer = curves(client, **RUN, points=5)
    for racer in answer["curves"]:
        if not racer["epsilon"]:
            continue
        truth = accounting.epsilon(**RUN, accountant=racer["accountant"])
        assert truth * (1 - 1e-9) <= racer["epsilon"][-1] <= truth * (1 + 2e-5)


@pytest.mark.parametrize("epsilon", [1e-7, 0.0123456789, 0.1, 3.0000001, 223.49, 1e308])
def test_six_digits_are_never_below_the_value(epsilon):
    assert epsilon <= significant(epsilon) <= epsilon * (1 + 2e-5)


def test_a_value_above_the_largest_number_of_six_digits_has_no_digits():
    assert significant(sys.float_info.max) is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"noise_multiplier": 0}, "noise_multiplier"),
        ({"sample_rate": 1.5}, "sample_rate"),
        ({"steps": 10**9 + 1}, "steps"),
        ({"points": 1000}, "points"),
        ({"delta": 0}, "delta"),
        ({"accountant": "rdp"}, "accountant"),
    ],
)
def test_a_bad_race_names_the_field(reading, changes, field):
    error_of(reading.get(CURVES, query_string=RUN | changes), 422, field)


def test_the_page_stands_in_full_without_script(reading):
    text = reading.get("/labs/accountants/", query_string=RUN).text
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', text)[1])
    table = text.split("data-ranking")[1].split("</table>")[0]
    for racer in data["answer"]["curves"]:
        assert racer["label"] in table
    assert data["answer"]["steps"][-1] == RUN["steps"]


def test_the_page_says_what_is_wrong_with_its_address(reading):
    text = reading.get("/labs/accountants/?sample_rate=2").text
    assert "Sample rate must be at most 1, got 2." in text
    assert 'value="2"' in text


@pytest.mark.parametrize("surprise", SURPRISES, ids=lambda one: one.title)
def test_a_surprise_is_one(client, surprise):
    larger, smaller = surprise.shown
    question = RaceQuestion.model_validate(surprise.settings)
    ends = {
        racer["accountant"]: racer["epsilon"][-1]
        for racer in curves(client, **question.model_dump())["curves"]
        if racer["epsilon"]
    }
    assert ends[larger] > 1.05 * ends[smaller]
    assert LABELS[larger] in surprise.note


def test_the_labs_are_listed(reading):
    text = reading.get("/labs/").text
    for path in ("accountants", "planner"):
        assert f'href="/labs/{path}/"' in text
        assert reading.get(f"/labs/{path}/").status_code == 200


def test_the_page_says_in_words_why_an_accountant_is_silent(reading):
    text, _, _ = reading.get("/labs/accountants/").text.partition("page-data")
    assert "<dd>Does not count sampling; applies at q = 1.</dd>" in text
    assert "must get steps" not in text
    whole = reading.get("/labs/accountants/?sample_rate=1").text
    assert "Does not count sampling" not in whole
