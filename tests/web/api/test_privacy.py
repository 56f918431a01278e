"""What the privacy routes say, against the accounting package asked directly."""

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.privacy import rounded
from dpsgd_explorer.web.questions.privacy_models import DEFAULT_ACCOUNTANT
from tests.web.conftest import SMALL, error_of

API = "/api/v1/privacy"
RUN = {"sample_rate": 0.01, "noise_multiplier": 1.1, "steps": 1000, "delta": 1e-6}
TERMS = {
    "delta": 1e-6,
    "neighboring_relation": "add_or_remove_one",
    "sampling": "poisson",
    "accountant": DEFAULT_ACCOUNTANT,
    "status": accounting.ACCOUNTANTS[DEFAULT_ACCOUNTANT].status,
}
ASKED = {"accountant": DEFAULT_ACCOUNTANT}
TARGETS = ("noise_multiplier", "steps", "sample_rate")


def truth_of(**changes):
    return accounting.epsilon(**(RUN | changes), **ASKED)


def run_without(name):
    return {key: value for key, value in RUN.items() if key != name}


def ask(client, route, **query):
    answer = client.get(f"{API}/{route}", query_string=query)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_epsilon_is_the_accountants_rounded_up_with_its_terms(reading):
    answer = ask(reading, "epsilon", **RUN)
    truth = truth_of()
    assert truth <= answer["epsilon"] <= truth + 1e-4
    assert answer["value"] == truth
    assert truth <= float(answer["epsilon_text"]) <= truth + 1e-2
    assert answer.items() >= TERMS.items()
    assert answer.items() >= RUN.items()


def test_without_noise_there_is_no_epsilon(reading):
    answer = ask(reading, "epsilon", **RUN | {"noise_multiplier": 0})
    assert (answer["epsilon"], answer["epsilon_text"]) == (None, "∞")


def test_the_noise_for_a_target_keeps_it(reading):
    query = run_without("noise_multiplier")
    answer = ask(reading, "noise_multiplier", target_epsilon=1.5, **query)
    spent = truth_of(noise_multiplier=answer["noise_multiplier"])
    assert 1.49 < spent <= 1.5
    assert answer["value"] == answer["noise_multiplier"]
    assert answer["epsilon"] == 1.5
    assert answer.items() >= TERMS.items()


def test_the_steps_for_a_target_are_the_most_that_keep_it(reading):
    answer = ask(reading, "steps", target_epsilon=1.5, **run_without("steps"))
    assert truth_of(steps=answer["steps"]) <= 1.5
    assert truth_of(steps=answer["steps"] + 1) > 1.5
    assert answer["value"] == answer["steps"]


def test_delta_is_where_the_epsilon_is_spent(reading):
    query = run_without("delta")
    answer = ask(reading, "delta", epsilon=1.5, **query)
    assert answer["value"] == answer["delta"]
    assert truth_of(delta=answer["delta"]) == pytest.approx(1.5, rel=1e-5)
    assert answer["epsilon"] == 1.5


@pytest.mark.parametrize("name", accounting.ACCOUNTANTS)
def test_the_truth_lies_between_lower_and_upper(reading, name):
    rate = 1 if name == "zcdp" else RUN["sample_rate"]
    answer = ask(reading, "epsilon", **RUN | {"sample_rate": rate}, accountant=name)
    if accounting.ACCOUNTANTS[name].status == "approximation":
        assert (answer["lower"], answer["upper"]) == (None, None)
        return
    assert answer["upper"] == answer["value"]
    assert (answer["lower"] or 0) <= answer["upper"]


def test_a_curve_is_epsilon_along_the_steps(reading):
    answer = ask(reading, "curve", **RUN, points=11)
    assert answer["steps"] == list(range(0, 1001, 100))
    truth = [truth_of(steps=step) for step in answer["steps"]]
    assert answer["epsilon"] == pytest.approx(
        [rounded(value) for value in truth], abs=1.01e-4
    )
    assert answer["epsilon"][0] == 0
    assert answer["epsilon"] == sorted(answer["epsilon"])
    assert answer.items() >= TERMS.items()


def test_a_curve_is_enclosed_point_by_point(reading):
    answer = ask(reading, "curve", **RUN, points=5)
    sides = zip(answer["lower"], answer["upper"], answer["epsilon"], strict=True)
    assert all(low <= high <= shown for low, high, shown in sides)
    none = ask(reading, "curve", **RUN, points=5, accountant="gdp")
    assert (none["lower"], none["upper"]) == (None, None)


@pytest.mark.parametrize("route", ["epsilon", "curve"])
def test_an_exact_answer_whose_sides_do_not_meet_is_called_a_bound(reading, route):
    run = {"sample_rate": 1e-5, "noise_multiplier": 0.05, "steps": 3, "delta": 1e-5}
    answer = ask(reading, route, **run)
    assert (answer["accountant"], answer["status"]) == ("exact", "bound")


def test_a_plan_names_the_accountants_that_apply(reading):
    sampled = ask(reading, "plan", **SMALL)["accountants"]
    assert set(accounting.ACCOUNTANTS) - set(sampled) == {"zcdp"}
    whole = SMALL | {"expected_batch_size": TrainingConfig.parse(SMALL).sample_size}
    assert ask(reading, "plan", **whole)["accountants"] == list(accounting.NAMES)


@pytest.mark.parametrize("route", ["epsilon", "noise_multiplier", "steps", "delta"])
def test_all_accountants_answer_beside_the_exact_one(reading, route):
    asked = {
        "epsilon": RUN,
        "noise_multiplier": run_without("noise_multiplier") | {"target_epsilon": 1.5},
        "steps": run_without("steps") | {"target_epsilon": 1.5},
        "delta": run_without("delta") | {"epsilon": 1.5},
    }[route]
    exact = ask(reading, route, **asked, accountant="exact")
    every = ask(reading, route, **asked, accountant="all")
    assert exact.pop("epsilons") is None
    told = every.pop("epsilons")
    assert every == exact
    run = {name: every[name] for name in RUN}
    assert told == {
        name: rounded(accounting.epsilon(**run, accountant=name))
        for name in accounting.ACCOUNTANTS
        if name != "zcdp"
    }


def test_a_plan_for_all_accountants_is_calibrated_by_the_exact_one(reading):
    exact, every = (
        ask(reading, "plan", **SMALL, accountant=name) for name in ("exact", "all")
    )
    told = every.pop("epsilons")
    assert every | {"epsilons": None} == exact
    assert told["exact"] == exact["epsilon"] < told["rdp"]


def test_a_curve_of_few_steps_names_each_once(reading):
    answer = ask(reading, "curve", **RUN | {"steps": 3}, points=200)
    assert answer["steps"] == [0, 1, 2, 3]


@pytest.mark.parametrize("route", ["epsilon", "curve", "noise_multiplier"])
@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("sample_rate", "0", "greater than 0, got 0"),
        ("sample_rate", "1.1", "at most 1, got 1.1"),
        ("sample_rate", "nan", "a finite number, got 'nan'"),
        ("sample_rate", "half", "a number, got 'half'"),
        ("sample_rate", "", "sample_rate must be given"),
        ("steps", "1.5", "a whole number, got '1.5'"),
        ("steps", "-1", "got -1"),
        ("steps", "9" * 5000, "a whole number"),
        ("delta", "1", "less than 1, got 1"),
        ("delta", "inf", "a finite number, got 'inf'"),
        ("accountant", "guess", "got 'guess'"),
        ("batch", "1", "unknown setting 'batch'"),
    ],
)
def test_a_bad_question_names_the_field(reading, route, field, text, says):
    query = {"sample_rate": 0.01, "steps": 10, "delta": 1e-6, field: text}
    extra = "target_epsilon" if route == "noise_multiplier" else "noise_multiplier"
    answer = reading.get(f"{API}/{route}", query_string=query | {extra: 1})
    error = error_of(answer, 422, field, says)
    assert len(error["message"]) < 300


def test_a_target_no_noise_reaches(reading):
    query = {"sample_rate": 1, "steps": 10**6, "delta": 1e-12, "target_epsilon": 1e-6}
    query["accountant"] = "rdp"  # whose orders end
    error_of(
        reading.get(f"{API}/noise_multiplier", query_string=query),
        422,
        "target_epsilon",
    )


def test_a_plan_says_what_the_run_will_do(reading):
    answer = ask(reading, "plan", **SMALL)
    plan = TrainingConfig(**SMALL).plan
    for name in ("sample_rate", "noise_multiplier", "steps", "sample_size", "delta"):
        assert answer[name] == getattr(plan, name), name
    assert answer["epsilon"] == 1.0
    assert (answer["last_step"], answer["curve"]) == (4, None)
    assert answer["epochs"] == pytest.approx(4 * 4096 / 32_561)


def test_a_plan_of_epochs_counts_the_steps(reading):
    query = {name: value for name, value in SMALL.items() if name != "steps"}
    answer = ask(reading, "plan", **query, epochs="2.5")
    assert answer["steps"] == 20  # 2.5 times 32,561 records in batches of 4096: 19.98


def test_a_plan_ends_where_the_budget_does(reading):
    query = SMALL | {"steps": 100, "stop_at_epsilon": 0.7}
    answer = ask(reading, "plan", **query, points=5)
    plan = TrainingConfig(**query).plan
    assert plan.epsilon(answer["last_step"]) <= 0.7
    assert plan.epsilon(answer["last_step"] + 1) > 0.7
    assert answer["epsilon"] == rounded(plan.epsilon(answer["last_step"]))
    assert answer["curve"]["steps"][-1] == answer["last_step"]
    assert answer["curve"]["epsilon"][-1] == answer["epsilon"]


def test_a_plan_without_privacy_promises_nothing(reading):
    answer = ask(reading, "plan", private="false", stop_at_epsilon="1", points=2)
    assert (answer["private"], answer["epsilon"]) == (False, None)
    assert answer["last_step"] == answer["steps"]
    assert answer["curve"]["epsilon"] == [0, None]


def test_no_query_is_the_default_run(reading):
    assert ask(reading, "plan")["steps"] == TrainingConfig().plan.steps


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
def test_a_bad_plan_has_a_message_for_each_field(reading, query, fields):
    error = error_of(reading.get(f"{API}/plan", query_string=query), 422)
    assert set(error["fields"]) == fields


def test_an_accountant_that_says_nothing_here_is_refused_with_the_reason(reading):
    query = RUN | {"accountant": "zcdp"}
    error_of(
        reading.get(f"{API}/epsilon", query_string=query),
        422,
        "accountant",
        "not amplified by sampling",
    )


def test_a_solved_sample_rate_keeps_the_target_and_hardly_more_does_not(reading):
    query = run_without("sample_rate")
    answer = ask(reading, "sample_rate", target_epsilon=1.5, **query)
    most = answer["value"]
    assert answer["sample_rate"] == most
    assert truth_of(sample_rate=most) <= 1.5 < truth_of(sample_rate=1.001 * most)
    assert answer["lower"] == most
    assert answer["upper"] is None or most <= answer["upper"] <= 1.001 * most


def test_the_trade_off_rises_above_the_diagonal(reading):
    query = run_without("delta")
    answer = ask(reading, "trade_off", **query, points=11)
    alarms, found = answer["false_positive_rate"], answer["true_positive_rate"]
    assert (alarms[0], alarms[-1], len(alarms)) == (0, 1, 11)
    assert found == sorted(found)
    assert all(b >= a for a, b in zip(alarms, found, strict=True))
    assert answer["status"] == "bound"
    truth = accounting.trade_off(**query, **ASKED, false_positive_rates=alarms)
    assert found == answer["upper"] == pytest.approx(truth, rel=1e-12)
    assert all(a <= b for a, b in zip(answer["lower"], found, strict=True))
    assert max(b - a for a, b in zip(answer["lower"], found, strict=True)) < 0.01


def test_a_repeated_question_is_answered_alike_and_an_error_is_not_kept(reading):
    first, again = (reading.get(f"{API}/epsilon", query_string=RUN) for _ in range(2))
    assert first.data == again.data
    assert first.headers["Content-Type"] == again.headers["Content-Type"]
    for _ in range(2):
        wrong = reading.get(f"{API}/epsilon", query_string=RUN | {"sample_rate": 2})
        assert wrong.status_code == 422


def test_a_solved_number_is_exact_only_where_it_is_enclosed(reading):
    """ε at the answer may be exact while the answer is not the least."""
    query = run_without("noise_multiplier")
    usual = ask(reading, "noise_multiplier", target_epsilon=1.5, **query)
    assert usual["status"] == "exact"
    assert usual["lower"] < usual["value"] == usual["upper"]
    loose = ask(
        reading,
        "noise_multiplier",
        target_epsilon=0.00044904330169875267,
        sample_rate=1.3799867623747025e-05,
        steps=11,
        delta=1.8203204034836687e-07,
    )
    assert (loose["lower"] is None) == (loose["status"] == "bound")


def test_noise_for_a_replaced_record_of_a_tiny_sample_is_answered(reading):
    run = {"sample_rate": 3.07e-5, "steps": 2658, "delta": 1.67e-5}
    terms = {"target_epsilon": 100.1, "neighboring_relation": "replace_one"}
    assert 0 < ask(reading, "noise_multiplier", **run, **terms)["value"] < 0.2


@pytest.mark.parametrize("route", ["epsilon", "curve", "plan"])
def test_a_parameter_that_is_given_twice_is_refused(reading, route):
    query = "sample_rate=0.01&steps=5&steps=6&noise_multiplier=1"
    answer = reading.get(f"/api/v1/privacy/{route}?{query}")
    assert answer.status_code == 422
    assert answer.json["error"]["field"] == "steps"
    assert "once" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "query",
    [
        "epsilon?sample_rate=0.01&steps=5&noise_multiplier=1e-200&accountant=gdp",
        "curves?sample_rate=0.01&noise_multiplier=1e-200&steps=1&points=60",
        "epsilon?sample_rate=0.01&steps=5&noise_multiplier=1&delta=5e-324",
        "budget_map?delta=5e-324",
        "batch_sizes?delta=5e-324",
        "noise_multiplier?accountant=exact&neighboring_relation=replace_one"
        "&sample_rate=5e-324&steps=1&delta=1e-5&target_epsilon=5e-324",
    ],
)
def test_numbers_that_are_hardly_floats_are_refused_not_broken_on(reading, query):
    assert reading.get(f"/api/v1/privacy/{query}").status_code == 422


def test_a_target_of_a_millionth_is_printed_as_one(reading):
    """It read 0.0001 and "0.01"."""
    query = run_without("noise_multiplier") | {"target_epsilon": 1e-6}
    answer = ask(reading, "noise_multiplier", **query)
    assert answer["epsilon"] == float(answer["epsilon_text"]) == 1e-6
    tiny = ask(reading, "epsilon", **RUN | {"noise_multiplier": 1e5})
    assert 0 < tiny["value"] <= tiny["epsilon"] <= 1.1 * tiny["value"] < 1e-4


@pytest.mark.parametrize("name", ["exact", "rdp", "gdp", "advanced", "basic", "all"])
def test_no_step_spends_nothing_here_as_in_the_library(reading, name):
    none = RUN | {"steps": 0, "accountant": name}
    assert ask(reading, "epsilon", **none)["value"] == 0
    assert ask(reading, "curve", **none)["epsilon"] == [0]
    assert ask(reading, "delta", **(none | {"delta": ""}), epsilon=1)["value"] == 0
    found = ask(reading, "trade_off", **(none | {"delta": ""}), points=3)
    assert found["true_positive_rate"] == found["false_positive_rate"]


@pytest.mark.parametrize("route", ["noise_multiplier", "sample_rate"])
def test_a_target_wants_steps(reading, route):
    query = run_without(route) | {"steps": 0, "target_epsilon": 1}
    error = error_of(reading.get(f"{API}/{route}", query_string=query), 422)
    assert (error["field"], "at least 1" in error["message"]) == ("steps", True)


def test_noise_may_be_as_large_as_in_the_library(reading):
    most = {"noise_multiplier": MAX_NOISE_MULTIPLIER, "delta": 1e-15}
    answer = ask(reading, "epsilon", **RUN | most | {"sample_rate": 1})
    assert answer["value"] == truth_of(**most, sample_rate=1) > 0
