"""What the privacy routes say, against the accounting package asked directly."""

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.training.config import TrainingConfig
from dpsgd_explorer.web.privacy_answers import rounded
from tests.web.conftest import SMALL, error_of

API = "/api/v1/privacy"
RUN = {"sample_rate": 0.01, "noise_multiplier": 1.1, "steps": 1000, "delta": 1e-6}
TERMS = {
    "delta": 1e-6,
    "neighboring_relation": "add_or_remove_one",
    "sampling": "poisson",
    "accountant": "rdp",
    "status": "bound",
}


def ask(client, route, **query):
    answer = client.get(f"{API}/{route}", query_string=query)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_epsilon_is_the_accountants_rounded_up_with_its_terms(client):
    answer = ask(client, "epsilon", **RUN)
    truth = accounting.epsilon(**RUN)
    assert truth <= answer["epsilon"] <= truth + 1e-4
    assert truth <= float(answer["epsilon_text"]) <= truth + 1e-2
    assert answer.items() >= TERMS.items()
    assert answer.items() >= RUN.items()


def test_without_noise_there_is_no_epsilon(client):
    answer = ask(client, "epsilon", **RUN | {"noise_multiplier": 0})
    assert (answer["epsilon"], answer["epsilon_text"]) == (None, "∞")


def test_the_noise_for_a_target_keeps_it(client):
    query = {name: RUN[name] for name in ("sample_rate", "steps", "delta")}
    answer = ask(client, "noise_multiplier", target_epsilon=1.5, **query)
    spent = accounting.epsilon(noise_multiplier=answer["noise_multiplier"], **query)
    assert 1.49 < spent <= 1.5
    assert answer["epsilon"] == 1.5
    assert answer.items() >= TERMS.items()


def test_a_curve_is_epsilon_along_the_steps(client):
    answer = ask(client, "curve", **RUN, points=11)
    assert answer["steps"] == list(range(0, 1001, 100))
    truth = [accounting.epsilon(**RUN | {"steps": step}) for step in answer["steps"]]
    assert answer["epsilon"] == [rounded(value) for value in truth]
    assert answer["epsilon"][0] == 0
    assert answer["epsilon"] == sorted(answer["epsilon"])
    assert answer.items() >= TERMS.items()


def test_a_curve_of_few_steps_names_each_once(client):
    answer = ask(client, "curve", **RUN | {"steps": 3}, points=200)
    assert answer["steps"] == [0, 1, 2, 3]


@pytest.mark.parametrize("route", ["epsilon", "curve", "noise_multiplier"])
@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("sample_rate", "0", "greater than 0, got '0'"),
        ("sample_rate", "1.1", "at most 1, got '1.1'"),
        ("sample_rate", "nan", "a finite number, got 'nan'"),
        ("sample_rate", "half", "a number, got 'half'"),
        ("sample_rate", "", "sample_rate is missing"),
        ("steps", "1.5", "a whole number, got '1.5'"),
        ("steps", "0", "at least 1, got '0'"),
        ("steps", "9" * 5000, "a whole number"),
        ("delta", "1", "less than 1, got '1'"),
        ("delta", "inf", "a finite number, got 'inf'"),
        ("accountant", "guess", "one of rdp, got 'guess'"),
        ("batch", "1", "unknown setting 'batch'"),
    ],
)
def test_a_bad_question_names_the_field(client, route, field, text, says):
    query = {"sample_rate": 0.01, "steps": 10, "delta": 1e-6, field: text}
    extra = "target_epsilon" if route == "noise_multiplier" else "noise_multiplier"
    answer = client.get(f"{API}/{route}", query_string=query | {extra: 1})
    error = error_of(answer, 422)
    assert error["field"] == field
    assert says in error["message"]
    assert len(error["message"]) < 300


def test_a_target_no_noise_reaches(client):
    query = {"sample_rate": 1, "steps": 10**6, "delta": 1e-12, "target_epsilon": 1e-6}
    error = error_of(client.get(f"{API}/noise_multiplier", query_string=query), 422)
    assert error["field"] == "target_epsilon"


def test_a_plan_says_what_the_run_will_do(client):
    answer = ask(client, "plan", **SMALL)
    plan = TrainingConfig(**SMALL).plan
    for name in ("sample_rate", "noise_multiplier", "steps", "sample_size", "delta"):
        assert answer[name] == getattr(plan, name), name
    assert answer["epsilon"] == 1.0
    assert (answer["last_step"], answer["curve"]) == (4, None)
    assert answer["epochs"] == pytest.approx(4 * 256 / 32_561)


def test_a_plan_of_epochs_counts_the_steps(client):
    query = {name: value for name, value in SMALL.items() if name != "steps"}
    answer = ask(client, "plan", **query, epochs="2.5")
    assert answer["steps"] == 318  # 2.5 times 32,561 records in batches of 256: 317.98


def test_a_plan_ends_where_the_budget_does(client):
    query = SMALL | {"steps": 100, "stop_at_epsilon": 0.7}
    answer = ask(client, "plan", **query, points=5)
    plan = TrainingConfig(**query).plan
    assert plan.epsilon(answer["last_step"]) <= 0.7
    assert plan.epsilon(answer["last_step"] + 1) > 0.7
    assert answer["epsilon"] == rounded(plan.epsilon(answer["last_step"]))
    assert answer["curve"]["steps"][-1] == answer["last_step"]
    assert answer["curve"]["epsilon"][-1] == answer["epsilon"]


def test_a_plan_without_privacy_promises_nothing(client):
    answer = ask(client, "plan", private="false", stop_at_epsilon="1", points=2)
    assert (answer["private"], answer["epsilon"]) == (False, None)
    assert answer["last_step"] == answer["steps"]
    assert answer["curve"]["epsilon"] == [0, None]


def test_no_query_is_the_default_run(client):
    assert ask(client, "plan")["steps"] == TrainingConfig().plan.steps


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({"noise_multiplier": "-1", "delta": "x"}, {"noise_multiplier", "delta"}),
        ({"model": "cnn", "dataset": "adult"}, {"model"}),
        ({"points": "1"}, {"points"}),
        ({"points": "1000000"}, {"points"}),
        ({"learning_rate": "nan"}, {"learning_rate"}),
        ({"learning_rate": "1e999"}, {"learning_rate"}),
        ({"nonsense": "1"}, {"nonsense"}),
    ],
)
def test_a_bad_plan_has_a_message_for_each_field(client, query, fields):
    error = error_of(client.get(f"{API}/plan", query_string=query), 422)
    assert set(error["fields"]) == fields
