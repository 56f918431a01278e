"""The price of a change in mid-run, asked for before it is made."""

import pytest

from dpsgd_explorer.accounting import epsilon
from dpsgd_explorer.experiments.training_config import TrainingConfig
from tests.stored_runs import ADULT, log_of
from tests.web.conftest import error_of

RUNS = "/api/v1/runs"
BUDGET = ADULT | {"filter_epsilon": 2.0}


@pytest.fixture
def begun(client, store):
    """Launch a run that has done some steps; return its id."""

    def begun(body, steps=10):
        run_id = client.post(RUNS, json=body).json["id"]
        claim = store.leases.claim(run_id)
        log = [e for e in log_of(TrainingConfig.parse(body), steps) if e.kind != "end"]
        store.leases.append(claim, log)
        return run_id

    return begun


def price(client, run_id, **values):
    return client.get(f"{RUNS}/{run_id}/price", query_string=values)


def test_a_change_within_the_budget_costs_what_the_filter_counts(client, begun):
    run_id = begun(BUDGET)
    answer = price(client, run_id, noise_multiplier=2).json
    config = TrainingConfig.parse(BUDGET)
    assert (answer["epsilon"], answer["accountant"]) == (2.0, "filter")
    assert (answer["status"], answer["steps"], answer["step"]) == ("bound", 40, 10)
    assert answer["before"] < answer["counted"] <= 2.0
    rate = config.plan.sample_rate
    exact = epsilon(
        sample_rate=rate,
        noise_multiplier=2.0,
        steps=answer["last_step"] - 10,
        delta=config.delta,
    )
    assert answer["counted"] > exact
    assert "The guarantee remains ε = 2.00 (bound)" in answer["words"]


def test_the_wall_is_said_before_the_change(client, begun):
    run_id = begun(BUDGET)
    answer = price(client, run_id, steps=4000).json
    assert 10 < answer["last_step"] < 4000
    last = f"{answer['last_step']:,}"
    assert f"The budget ends the run after step {last} of 4,000" in answer["words"]
    answer = price(client, run_id, noise_multiplier=0.01).json
    assert answer["last_step"] == 10
    assert "allows no such step: the run would end here" in answer["words"]


def test_without_a_budget_such_a_change_is_refused_and_told_what_to_do(client, begun):
    run_id = begun(ADULT)
    for values in ({"steps": 50}, {"noise_multiplier": 2}, {"expected_batch_size": 9}):
        error = error_of(price(client, run_id, **values), 422)
        assert error["field"] == next(iter(values))
        assert "Start another run with filter_epsilon" in error["message"]
        posted = client.post(f"{RUNS}/{run_id}/change", json=values)
        assert error_of(posted, 422) == error


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({}, "steps"),
        ({"further_steps": 5}, "further_steps"),
        ({"steps": "x"}, "steps"),
        ({"noise_multiplier": "1e999"}, "noise_multiplier"),
        ({"steps": 10**9}, "steps"),
        ({"momentum": 0.1}, "momentum"),
    ],
)
def test_what_is_no_change_has_no_price(client, begun, values, field):
    assert error_of(price(client, begun(BUDGET), **values), 422)["field"] == field


def test_a_run_without_noise_has_no_epsilon_to_say(client, begun):
    open_run = ADULT | {"private": False}
    answer = price(client, begun(open_run), expected_batch_size=64).json
    assert (answer["epsilon"], answer["epsilon_text"]) == (None, "∞")
    assert "no guarantee" in answer["words"]


def test_a_run_of_another_kind_has_no_such_price(client):
    run_id = client.post(RUNS, json={"kind": "engines"}).json["id"]
    assert error_of(price(client, run_id, steps=3), 422)["field"] == "kind"


def plan_of(client, **values):
    return client.get("/api/v1/privacy/plan", query_string=BUDGET | values).json


def test_the_plan_of_a_run_with_a_budget_says_budget_and_wall(reading):
    plan = plan_of(reading, points=11)
    terms = (plan["epsilon"], plan["accountant"], plan["status"])
    assert terms == (2.0, "filter", "bound")
    assert plan["last_step"] == plan["steps"] == 40
    assert plan["curve"]["epsilon"][-1] <= 2.0
    assert 0 < plan_of(reading, filter_epsilon=0.9)["last_step"] < 40
    page = reading.get("/train/", query_string=BUDGET).text
    assert "bound (filter)" in page
    assert "Privacy filter" in page
