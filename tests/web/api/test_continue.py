"""A run that is done is continued over HTTP; its price is asked for before."""

import pytest

from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.http.visitor import COOKIE
from tests.stored_runs import ADULT, log_of
from tests.web.conftest import ended, error_of

RUNS = "/api/v1/runs"
BUDGET = ADULT | {"filter_epsilon": 2.0}


@pytest.fixture
def done(client, store):
    """Take a run of this visitor to its end; return its id."""

    def done(body):
        run_id = client.post(RUNS, json=body).json["id"]
        return ended(store, run_id, log_of(TrainingConfig.parse(body)))

    return done


def asked(client, run_id, steps):
    query = {"further_steps": steps}
    return client.get(f"{RUNS}/{run_id}/price", query_string=query)


def posted(client, run_id, steps):
    return client.post(f"{RUNS}/{run_id}/continue", json={"further_steps": steps})


def test_the_price_is_what_the_filter_then_counts(client, done):
    run_id = done(BUDGET)
    answer = asked(client, run_id, 20).json
    assert (answer["step"], answer["steps"], answer["last_step"]) == (40, 60, 60)
    terms = (answer["epsilon"], answer["accountant"], answer["status"])
    assert terms == (2.0, FILTER, "bound")
    config = TrainingConfig.parse(BUDGET)
    before, after = config.filtered_run.counted(
        TrainingConfig.parse(
            BUDGET
            | {
                "steps": 60,
                "target_epsilon": None,
                "noise_multiplier": config.plan.noise_multiplier,
            }
        ).plan.phases,
        [40, 60],
    )
    assert (answer["before"], answer["counted"]) == (before, after)
    assert "The guarantee remains ε = 2.00 (bound)" in answer["words"]


def test_a_run_that_is_continued_is_another_with_its_log(client, done, store):
    run_id = done(BUDGET)
    answer = posted(client, run_id, 20)
    assert answer.status_code == 201
    child = answer.json
    assert answer.headers["Location"] == child["links"]["self"] != f"{RUNS}/{run_id}"
    assert (child["state"], child["step"], child["steps"]) == ("queued", 40, 60)
    assert (child["parent"], child["mine"]) == (run_id, True)
    log = client.get(child["links"]["log"]).json["events"]
    assert [event["kind"] for event in log[:2]] == ["state", "phase"]
    assert max(event["data"].get("step", 0) for event in log) == 40
    again = error_of(posted(client, run_id, 3), 422, "further_steps", child["id"])
    assert again == error_of(asked(client, run_id, 3), 422)


@pytest.mark.parametrize("steps", [0, -3, 10**9, "3", 1.5, None, True])
def test_what_is_no_number_of_further_steps_is_refused(client, done, steps):
    error_of(posted(client, done(BUDGET), steps), 422, "further_steps")


def test_a_run_by_plan_is_refused_with_the_way_out(client, done):
    run_id = done(ADULT)
    for ask in (asked, posted):
        error_of(
            ask(client, run_id, 5),
            422,
            "further_steps",
            "A run with a budget for changes",
        )


def test_only_its_visitor_continues_a_run(client, other_visitor, done):
    run_id = done(BUDGET)
    error_of(posted(other_visitor, run_id, 5), 404)
    client.delete_cookie(COOKIE)
    error_of(posted(client, run_id, 5), 404)
    error_of(posted(client, "none", 5), 404)


def test_the_page_of_an_ended_run_does_not_speak_of_its_last_step_to_come(client, done):
    page = client.get(f"/runs/{done(ADULT)}/").text
    assert "cannot be continued" in page
    assert "After its last step" not in page
