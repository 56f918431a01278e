"""The planner: what follows from four of five numbers, against accounting itself."""

import json
import math
import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.labs.planner import budget_map as budget_map
from dpsgd_explorer.web.labs.planner.question import SOLVABLE, BudgetQuestion, solve
from dpsgd_explorer.web.questions.odds import attacker_accuracy
from dpsgd_explorer.web.questions.privacy_models import DEFAULT_ACCOUNTANT
from tests.web.conftest import error_of

API = "/api/v1/privacy"
GIVEN = {
    "sample_size": 60_000,
    "epsilon": 2.0,
    "delta": 1e-5,
    "noise_multiplier": 1.2,
    "expected_batch_size": 1000,
    "epochs": 12,
}


def ask(client, solve_for, **changes):
    query = GIVEN | changes | {"solve": solve_for}
    answer = client.get(f"{API}/budget", query_string=query)
    assert answer.status_code == 200, answer.text
    return answer.json


def spent(answer, **changes):
    numbers = answer | changes
    return accounting.epsilon(
        sample_rate=numbers["expected_batch_size"] / GIVEN["sample_size"],
        noise_multiplier=numbers["noise_multiplier"],
        steps=numbers["steps"],
        delta=numbers["delta"],
        accountant=DEFAULT_ACCOUNTANT,
    )


@pytest.mark.parametrize("name", SOLVABLE)
def test_four_numbers_stay_and_the_fifth_fits_them(reading, name):
    answer = ask(reading, name)
    for kept in SOLVABLE.keys() - {name, "epsilon", "epochs"}:
        assert answer[kept] == pytest.approx(GIVEN[kept]), kept
    assert answer["solve"] == name
    if name != "epsilon":
        assert answer["budget"] == GIVEN["epsilon"]
    assert spent(answer) <= answer["budget"]
    if name != "epochs":
        batches = GIVEN["sample_size"] / answer["expected_batch_size"]
        assert answer["steps"] == math.ceil(GIVEN["epochs"] * batches)


def test_what_follows_is_no_smaller_than_it_must_be(reading):
    noise = ask(reading, "noise_multiplier")
    assert spent(noise, noise_multiplier=noise["noise_multiplier"] * 0.999) > 2
    epochs = ask(reading, "epochs")
    assert spent(epochs, steps=epochs["steps"] + 1) > 2
    batch = ask(reading, "expected_batch_size")
    larger = math.ceil(batch["expected_batch_size"] * 1.02)
    steps = math.ceil(12 * 60_000 / larger)
    assert spent(batch, expected_batch_size=larger, steps=steps) > 2
    delta = ask(reading, "delta")
    assert spent(delta, delta=delta["delta"] * 0.99) > 2


def test_a_batch_of_all_records_is_the_largest(reading):
    answer = ask(reading, "expected_batch_size", epsilon=900)
    assert answer["expected_batch_size"] == GIVEN["sample_size"]


def test_the_answer_says_what_it_means(reading):
    answer = ask(reading, "epsilon")
    assert answer["noise_per_update"] == pytest.approx(1.2 / 1000)
    exact = 100 * attacker_accuracy(spent(answer), 1e-5)
    assert exact <= float(answer["odds"]) <= exact + 0.1
    assert (answer["sampling"], answer["accountant"]) == ("poisson", DEFAULT_ACCOUNTANT)


def test_train_this_opens_the_trainer_with_the_same_budget(reading):
    answer = ask(reading, "noise_multiplier")
    query = dict(parse_qsl(urlsplit(answer["train"]).query))
    plan = TrainingConfig.from_query(query).plan
    assert (plan.sample_size, plan.expected_batch_size) == (60_000, 1000)
    assert (plan.steps, plan.delta) == (answer["steps"], 1e-5)
    assert plan.noise_multiplier == pytest.approx(answer["noise_multiplier"], rel=1e-5)
    assert plan.epsilon() <= 2
    assert reading.get(answer["train"]).status_code == 200


def test_a_budget_for_other_data_says_why_it_is_not_trained(reading):
    answer = ask(reading, "epsilon", sample_size=50_000)
    assert answer["train"] == ""
    assert "60,000" in answer["remark"]


def test_a_delta_beyond_all_use_stops_where_it_can_be_counted(reading):
    answer = ask(reading, "delta", noise_multiplier=4)
    assert answer["delta"] == 1e-15
    assert 0 < answer["upper"] < answer["budget"] / 2


def test_a_weak_delta_is_told(reading):
    answer = ask(reading, "delta", noise_multiplier=0.5)
    assert answer["delta"] > 1 / 60_000
    assert "not below 1/N" in answer["remark"]


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"solve": "luck"}, "solve", "one of epsilon, delta"),
        ({"delta": 1e-4}, "delta", "below 1/N = 1/60000"),
        ({"expected_batch_size": 60_001}, "expected_batch_size", "at most N"),
        ({"epsilon": 0}, "epsilon", "greater than 0"),
        ({"noise_multiplier": "nan"}, "noise_multiplier", "a finite number"),
        ({"solve": "epochs", "epsilon": 1e-6}, "epsilon", "a single step"),
        (
            {"solve": "expected_batch_size", "epsilon": 1e-6},
            "epsilon",
            "batches of 1 alone would spend",
        ),
        ({"sample_size": 10**9, "epochs": 9999}, "delta", "below 1/N"),
        (
            {
                "sample_size": 10**9,
                "epochs": 9999,
                "delta": 1e-12,
                "expected_batch_size": 1,
                "solve": "epsilon",
            },
            "epochs",
            "steps long",
        ),
    ],
)
def test_numbers_that_do_not_go_together(reading, changes, field, says):
    query = GIVEN | {"solve": "noise_multiplier"} | changes
    error_of(reading.get(f"{API}/budget", query_string=query), 422, field, says)


@pytest.mark.parametrize("route", ["budget", "budget_map", "batch_sizes"])
def test_the_least_delta_is_the_same_everywhere(reading, route):
    query = {"expected_batch_size": 174, "sample_size": 457, "delta": 2.2e-190}
    error_of(
        reading.get(f"{API}/{route}", query_string=query),
        422,
        "delta",
        "at least 1e-15",
    )


def test_the_map_passes_through_what_is_solved(reading):
    query = {name: GIVEN[name] for name in ("sample_size", "delta", "epsilon")}
    query |= {"expected_batch_size": 1024}
    answer = reading.get(f"{API}/budget_map", query_string=query).json
    line = answer["budget"]
    assert len(line["epochs"]) == budget_map.COLUMNS
    for i in (0, 8, 16):
        asked = BudgetQuestion(
            **query, solve="noise_multiplier", epochs=line["epochs"][i]
        )
        exact = solve(asked).noise_multiplier
        assert line["noise_multiplier"][i] == pytest.approx(exact, rel=0.02)


def test_lines_of_the_map_do_not_cross(reading):
    contours = reading.get(f"{API}/budget_map").json["contours"]
    assert [line["epsilon"] for line in contours] == list(budget_map.LEVELS)
    at_one_place = [
        dict(zip(line["epochs"], line["noise_multiplier"], strict=True))
        for line in contours
    ]
    for epochs in budget_map.epochs_axis():
        noise = [line[epochs] for line in at_one_place if epochs in line]
        assert noise == sorted(noise, reverse=True)
        assert len(noise) >= 3


def test_larger_batches_carry_less_noise_at_the_same_budget(reading):
    rows = reading.get(f"{API}/batch_sizes", query_string=GIVEN).json["rows"]
    assert [row["expected_batch_size"] for row in rows] == [64, 256, 1024, 4096, 16384]
    noise = [row["noise_multiplier"] for row in rows]
    left = [row["noise_per_update"] for row in rows]
    assert noise == sorted(noise)
    assert left == sorted(left, reverse=True)
    for row in rows:
        assert spent(row, delta=1e-5) <= 2


def test_no_batch_is_larger_than_the_data(reading):
    query = GIVEN | {"sample_size": 5000, "expected_batch_size": 100}
    rows = reading.get(f"{API}/batch_sizes", query_string=query).json["rows"]
    assert [row["expected_batch_size"] for row in rows] == [64, 256, 1024, 4096]


def test_the_page_works_without_script(reading):
    text = reading.get("/labs/planner/", query_string=GIVEN).text
    answer = ask(reading, "noise_multiplier")
    assert f'value="{accounting.round_up(answer["noise_multiplier"], 4)}"' in text
    assert f"{answer['odds']} %" in text
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', text)[1])
    assert data["answer"]["steps"] == answer["steps"]


def test_the_page_keeps_what_was_typed_and_says_what_is_wrong(reading):
    text = reading.get("/labs/planner/?epsilon=-2&epochs=7").text
    assert 'value="-2"' in text
    assert 'value="7"' in text
    assert "Budget must be greater than 0, got -2." in text
