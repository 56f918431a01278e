"""The price of choosing a run, and budgets fixed beforehand, over HTTP."""

import math

import pytest

from dpsgd_explorer.accounting import Phase, RdpCurve, RenyiFilter, best_of_trials
from dpsgd_explorer.web.questions.privacy import rounded
from tests.web.conftest import error_of

API = "/api/v1/privacy"
RUN = {"sample_rate": 0.01, "noise_multiplier": 1.5, "steps": 1000}


@pytest.mark.parametrize(
    ("asked", "shape"),
    [({}, 1.0), ({"shape": 0}, 0.0), ({"poisson": "true"}, math.inf)],
)
@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_the_best_of_some_runs_costs_what_the_library_says(
    reading, asked, shape, relation
):
    query = RUN | asked | {"mean_trials": 20, "neighboring_relation": relation}
    answer = reading.get(f"{API}/selection", query_string=query).json
    trial = RdpCurve.of([Phase(*RUN.values())], relation)
    best = best_of_trials(trial, mean_trials=20.0, shape=shape).epsilon(1e-5)
    assert answer["epsilon"] == rounded(best) > answer["trial_epsilon"]
    assert answer["trial_epsilon"] == rounded(trial.epsilon(1e-5))
    assert (answer["accountant"], answer["status"]) == ("rdp", "bound")
    assert (answer["neighboring_relation"], answer["delta"]) == (relation, 1e-5)


def test_a_budget_allows_what_the_library_says(reading):
    query = {"target_epsilon": 2, "sample_rate": 0.01, "noise_multiplier": 2}
    answer = reading.get(f"{API}/filter", query_string=query).json
    budget = RenyiFilter(2.0, 1e-5)
    assert answer["steps"] == budget.steps_left(0.01, 2.0) > 100
    assert (answer["order"], answer["budget"]) == (budget.order, budget.budget)
    assert (answer["accountant"], answer["status"]) == ("rdp", "bound")


def test_without_noise_there_is_nothing_to_promise(reading):
    silent = RUN | {"noise_multiplier": 0}
    answer = reading.get(f"{API}/selection", query_string=silent).json
    assert (answer["epsilon"], answer["epsilon_text"]) == (None, "∞")
    query = {"target_epsilon": 2, "sample_rate": 0.01, "noise_multiplier": 0}
    assert reading.get(f"{API}/filter", query_string=query).json["steps"] == 0


@pytest.mark.parametrize(
    ("field", "value"), [("mean_trials", 0.5), ("shape", -1), ("steps", 0)]
)
def test_a_bad_question_names_the_field(reading, field, value):
    answer = reading.get(f"{API}/selection", query_string=RUN | {field: value})
    assert error_of(answer, 422)["field"] == field
