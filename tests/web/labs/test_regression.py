"""The regression lab as a reader without script gets it, and its answers."""

import html
import re

import pytest

from dpsgd_explorer.experiments.california_housing import descents
from dpsgd_explorer.web.forms.fields import form_fields
from dpsgd_explorer.web.hub.chapters.private_linear_regression import figures as chapter
from dpsgd_explorer.web.labs.regression import page as labs_regression
from dpsgd_explorer.web.labs.regression import results as labs_results
from dpsgd_explorer.web.labs.regression.question import RegressionQuestion
from dpsgd_explorer.web.labs.regression.results import (
    RankedMethod,
    View,
    median_range,
    verdict,
)
from tests.web.conftest import error_of
from tests.web.reading import page_data

PAGE = "/labs/linear-regression/"
CHARTS = {"errors", "descent", "regimes", "cloud", "budget"}
ON_DEMAND = {"regimes"}  # where it is not recorded
API = "/api/v1/regression/comparison"


def shown(text):
    """Return each chart's heading by the chart's id."""
    found = re.findall(
        r'<figure class="chart [^"]*" id="(\w+)">.*?<h3>(.*?)</h3>', text, re.DOTALL
    )
    return {name: html.unescape(re.sub(r"<[^>]*>", "", h)) for name, h in found}


def test_the_page_shows_five_charts_each_with_its_table(reading):
    text = reading.get(PAGE).text
    assert set(shown(text)) == CHARTS
    assert text.count('<table class="data">') == 6
    assert text.count('class="badge exact"') == 5
    for heading in shown(text).values():
        assert re.search(r"\d", heading)


def test_every_setting_of_the_address_is_in_its_box(reading):
    text = reading.get(
        PAGE, query_string={"epsilon": "0.2", "variant": "notebook"}
    ).text
    assert re.search(r'name="epsilon"[^>]* value="0.2"', text)
    assert '<option value="notebook" selected>' in text
    assert "At ε = 0.2, " in shown(text)["errors"]


@pytest.mark.parametrize(
    ("name", "smallest"),
    [
        ("x_bound", 1e-6),
        ("y_bound", 5e-324),
        ("epsilon", 1e-30),
        ("learning_rate", 5e-324),
    ],
)
def test_the_smallest_numbers_that_are_allowed_are_answered(reading, name, smallest):
    answer = reading.get(API, query_string={name: smallest})
    assert answer.status_code == 200
    text = reading.get(PAGE, query_string={name: smallest}).text
    assert set(shown(text)) >= CHARTS - ON_DEMAND


def test_every_preset_is_a_question_that_can_be_asked(reading):
    for preset in labs_regression.PRESETS:
        assert set(preset.settings) <= set(form_fields(RegressionQuestion))
        charts = shown(reading.get(f"{PAGE}?{preset.address}").text)
        assert set(charts) >= CHARTS - ON_DEMAND


@pytest.mark.parametrize(
    ("query", "name", "says"),
    [
        ({"epsilon": "0"}, "epsilon", "Budget must be greater than 0"),
        ({"epsilon": "3"}, "epsilon", "at most 2"),
        ({"epsilon": "nan"}, "epsilon", "a finite number"),
        ({"delta": "1"}, "delta", "less than 4.8"),
        ({"delta": "0"}, "delta", "at least 1e-300"),
        ({"delta": "5e-324", "steps": "7"}, "delta", "at least 1e-300"),
        ({"x_bound": "-1"}, "x_bound", "Row bound must be at least 1e-06, got -1"),
        ({"y_bound": "0"}, "y_bound", "greater than 0"),
        ({"ridge": "-2"}, "ridge", "at least 0"),
        ({"repetitions": "1e9"}, "repetitions", "a whole number"),
        ({"repetitions": "5000"}, "repetitions", "at most 200"),
        ({"steps": "0"}, "steps", "at least 1"),
        ({"learning_rate": "0"}, "learning_rate", "greater than 0"),
        ({"steps": "10000000"}, "steps", "at most 200000"),
        ({"variant": "loose"}, "variant", "one of tight, notebook"),
        ({"rows": "refuse"}, "rows", "one of normalize, clip"),
        ({"second": "MedInc"}, "second", "a different feature than first"),
        ({"noise_multiplier": "1000"}, "noise_multiplier", "at most 200,000 steps"),
        ({"target_epsilon": "0"}, "target_epsilon", "at least 0.01"),
        ({"solve": "delta"}, "solve", "steps, noise_multiplier, target_epsilon"),
        ({"solve": "noise_multiplier"}, "steps", "must be given to solve for noise"),
        ({"solve": "target_epsilon", "steps": ""}, "steps", "must be given to solve"),
        (
            {"solve": "noise_multiplier", "steps": "200000", "target_epsilon": "0.01"}
            | {"delta": "1e-300"},
            "target_epsilon",
            "Raise it, or use fewer steps",
        ),
        ({"rate": "best"}, "rate", "one of public, released, notebook"),
    ],
)
def test_a_bad_setting_is_told_at_its_field(reading, query, name, says):
    answer = reading.get(PAGE, query_string=query)
    assert answer.status_code == 200
    [told] = re.findall(rf'id="{name}-error">(.*?)</p>', answer.text)
    assert says in html.unescape(told)
    assert set(page_data(answer.text)["errors"]) == {name}
    assert shown(answer.text) == {}
    error_of(reading.get(API, query_string=query), 422, name)


def test_a_long_descent_is_computed_when_waited_for(client, monkeypatch):
    labs_regression.guesses()  # cached, with all descents
    monkeypatch.setattr(descents, "SHORT", 100)
    descents.compute.cache_clear()
    before = client.get(PAGE).text
    assert "descent" not in shown(before)
    assert "This descent takes 502 steps" in before
    [link] = re.findall(r'href="([^"]*)" data-wait="descent"', before)
    after = client.get(PAGE + html.unescape(link)).text
    assert shown(after)["descent"].startswith("After 502 steps and ε = 1.9989 ")
    with descents._long_descent:
        other = {"noise_multiplier": "49"}
        busy = client.get(PAGE, query_string=other | {"wait": "1"}).text
        assert "another long descent is being computed" in busy
        error = error_of(client.get(API, query_string=other), 429)
        assert error["retry_after"] == 2
        assert "descent" in shown(client.get(PAGE, query_string={"wait": "1"}).text)


def test_a_descent_that_diverges_is_said_to(reading):
    text = reading.get(PAGE, query_string={"rate_factor": "20"}).text
    assert shown(text)["descent"].startswith(
        "After 502 steps and ε = 1.9989 the descent has diverged"
    )
    assert not re.search(r"\bnan\b", text)


def test_a_learning_rate_can_be_a_number(reading):
    public = RegressionQuestion().run.spec.learning_rate
    given = reading.get(PAGE, query_string={"learning_rate": repr(public)}).text
    assert shown(given)["descent"] == shown(reading.get(PAGE).text)["descent"]
    assert "as given" in given
    query = {"learning_rate": "1e-5", "rate_factor": "2"}
    descent = reading.get(API, query_string=query).json["descent"]
    assert descent["learning_rate"] == pytest.approx(2e-5)
    assert descent["learning_rate_is_private"]


def test_a_rate_from_the_data_leaves_no_claim_on_its_chart(reading):
    [public, notebook] = (
        reading.get(PAGE, query_string={"rate": rate}).text
        for rate in ("public", "notebook")
    )
    figure = r'id="descent".*?</figure>'
    exact = '<span class="badge exact">'
    assert exact in re.search(figure, public, re.DOTALL)[0]
    assert exact not in re.search(figure, notebook, re.DOTALL)[0]


def test_tight_bounds_show_their_bias(reading):
    text = reading.get(PAGE, query_string={"y_bound": "2"}).text
    assert "bounds alone, no noise" in text
    free = reading.get(PAGE).text
    assert "bounds alone, no noise" not in free


def test_the_guesses_are_answered_by_the_numbers(reading):
    guesses = labs_regression.guesses()
    medians = {name: float(text) for name, text in guesses["medians"].items()}
    assert guesses["winner"] == min(medians, key=medians.get) == "adassp"
    assert guesses["larger_is"] == "worse"
    text = reading.get(PAGE).text
    assert text.count('class="verdict right"') == 2


def test_methods_are_told_apart_only_where_their_medians_are():
    low, high = median_range(View(RegressionQuestion()).sweeps["ssp"].mse[0])
    assert low < high
    view = View(
        RegressionQuestion(epsilon=2.0, noise_multiplier=500.0, rate="notebook")
    )
    assert "too close to distinguish" in verdict(view.question, view.ranking)
    clear = View(RegressionQuestion(epsilon=0.1))
    assert "AdaSSP has the least error" in verdict(clear.question, clear.ranking)
    assert all(isinstance(ranked, RankedMethod) for ranked in clear.ranking)


def test_the_api_answers_what_the_page_draws(reading):
    answer = reading.get(API, query_string={"variant": "notebook"}).json
    assert answer["nonprivate_mse"] == pytest.approx(0.6053, abs=1e-4)
    assert len(answer["epsilons"]) == len(answer["mse"]["ssp"]["median"]) == 50
    assert 0.4999999 < answer["epsilon_spent"] <= 0.5
    assert sum(part["share"] for part in answer["released"]) == pytest.approx(1)
    names = [part["name"] for part in answer["released"]]
    assert names == ["xtx", "xty", "lambda_min"]
    assert len(answer["coefficients"]) == 50
    assert answer["descent"]["learning_rate_is_private"]
    assert answer["descent"]["epsilons"][-1] <= 2.0


def test_infinite_errors_leave_as_null(reading):
    descent = reading.get(API, query_string={"rate_factor": "20"}).json["descent"]
    assert descent["mse"]["median"][-1] is None


@pytest.mark.parametrize(
    ("query", "name", "text"),
    [
        ({}, "steps", "502"),
        ({"target_epsilon": "1"}, "steps", "140"),
        ({"noise_multiplier": "50", "steps": "40"}, "target_epsilon", None),
        ({"solve": "target_epsilon", "steps": "40"}, "target_epsilon", None),
        ({"solve": "noise_multiplier", "steps": "40"}, "noise_multiplier", None),
        ({"solve": "steps", "steps": "9", "rate": "released"}, "steps", "497"),
    ],
    ids=str,
)
def test_one_of_noise_steps_and_epsilon_follows_from_the_others(
    reading, query, name, text
):
    page = reading.get(PAGE, query_string=query).text
    [box] = re.findall(rf'<input id="{name}"[^>]* value="([^"]*)"', page)
    assert text is None or box == text
    assert re.search(rf'<option value="{name}" selected>', page)
    question = RegressionQuestion.model_validate(query)
    noise, steps = question.run.schedule
    assert shown(page)["descent"].startswith(f"After {steps:,} step")
    assert question.run.epsilon <= question.target_epsilon or name == ("target_epsilon")
    answer = reading.get(API, query_string=query).json["descent"]
    assert (answer["noise_multiplier"], answer["steps"][-1]) == (noise, steps)
    assert answer["epsilon"] == question.run.epsilon


def test_what_stands_in_the_box_that_follows_is_no_setting(reading):
    sent = {"solve": "noise_multiplier", "steps": "200000", "target_epsilon": "1"}
    page = reading.get(PAGE, query_string=sent | {"noise_multiplier": "1877.3"}).text
    assert page_data(page)["errors"] == {}
    empty = reading.get(PAGE, query_string=sent | {"noise_multiplier": ""}).text
    assert page_data(empty)["errors"] == {}


def test_a_descent_beyond_the_axis_has_its_own(reading):
    query = {"solve": "target_epsilon", "noise_multiplier": "10", "steps": "400"}
    text = reading.get(PAGE, query_string=query).text
    [descent] = re.findall(r'id="descent".*?</figure>', text, re.DOTALL)
    assert ">10</text>" in descent


def test_an_emptied_box_is_asked_for_only_if_nothing_follows(reading):
    emptied = {"target_epsilon": ""}
    for solve, says in (("steps", "Target must be given."), ("target_epsilon", "")):
        query = emptied | {"solve": solve, "steps": "40"}
        page = reading.get(PAGE, query_string=query).text
        assert re.findall(r'id="target_epsilon-error".*?>(.*?)</p>', page) == [says]


def test_the_two_regimes_are_those_of_the_notebook(reading):
    query = {"variant": "notebook", "rate": "notebook", "epsilon": "2"}
    text = reading.get(PAGE, query_string=query).text
    [regimes] = re.findall(r'id="regimes".*?</figure>', text, re.DOTALL)
    assert "50,251 steps with σ = 500 and 502 steps with σ = 50" in regimes
    assert '<span class="badge exact">' not in regimes
    rows = re.findall(r"<tr>(.*?)</tr>", regimes, re.DOTALL)
    cells = [
        re.sub(r"<[^>]+>", "", cell)
        for cell in re.findall(r"<t[hd].*?</t[hd]>", rows[-1])
    ]
    assert cells[0] == "2"
    for cell, golden in zip(cells[3:], (0.6533, 0.6543), strict=True):
        assert float(cell.split(" ")[0]) == pytest.approx(golden, abs=0.004)


def test_regimes_that_are_not_recorded_are_computed_when_asked_for(client, monkeypatch):
    labs_regression.guesses()  # cached, with all descents
    monkeypatch.setattr(descents, "SHORT", 600)
    monkeypatch.setattr(
        labs_results, "REGIMES", {"large_noise": 60.0, "small_noise": 50.0}
    )
    query = {"y_bound": "4"}
    before = client.get(PAGE, query_string=query).text
    assert "regimes" not in shown(before)
    [link] = re.findall(r'href="([^"]*)" data-wait="regimes"', before)
    after = client.get(PAGE + html.unescape(link)).text
    assert "regimes" in shown(after)
    answer = client.get("/api/v1/regression/regimes", query_string=query).json
    assert {n: d["noise_multiplier"] for n, d in answer["regimes"].items()} == {
        "large_noise": 60.0,
        "small_noise": 50.0,
    }
    assert answer["status"] == "exact"
    for descent in answer["regimes"].values():
        assert 1.9 < descent["epsilon"] <= 2.0


def test_a_rate_has_its_dash_before_its_name_and_its_trend_after_it():
    picture = chapter.rates_picture()
    mark = r'<path class="line legend s-good( \w+)?" d="M[\d. ]+h18"/>'
    key = mark + r"\s*<text[^>]*>([^<]+)"
    names = [
        (" dashed", "rate × 10, rising"),
        (" dotted", "rate ÷ 10, falling"),
        ("", "chosen rate, flat"),
    ]
    for drawing in (picture.wide, picture.narrow):
        assert re.findall(key, drawing) == names
    late, last = (
        [float(cell) for cell in row[2:]]
        for row in (picture.rows[-3], picture.rows[-1])
    )
    below, chosen, above = (b - a for a, b in zip(late, last, strict=True))
    assert below < -0.05 < chosen < 0.01 < 0.05 < above
    assert "rate ÷ 10 −0.1" in picture.note
