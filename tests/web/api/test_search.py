"""A blind search over HTTP: its price, its launch, its page and what is taken away."""

import json
import math
import re

import pytest

from dpsgd_explorer.accounting import (
    Phase,
    Plan,
    RdpCurve,
    epsilon,
    padded_selection,
)
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.kinds import KINDS, start
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.web.questions.privacy import rounded
from tests.in_order import in_order
from tests.web.api.test_exports import run_python
from tests.web.conftest import SMALL, ended, error_of
from tests.web.reading import page_data

RUNS = "/api/v1/runs"
PRICE = "/api/v1/privacy/search"
TRIAL = SMALL | {"expected_batch_size": 64, "steps": 2, "target_epsilon": 0.05}
SEARCH = TRIAL | {"mean_trials": 1.0, "learning_rate_values": "0.5 4"}


def launched(client, **settings):
    return client.post(RUNS, json=SEARCH | {"kind": "search"} | settings)


CONFIG = SearchConfig.parse(SEARCH)
REACHED = {"test_accuracy": 0.81, "test_loss": 0.4321}


@pytest.fixture
def log():
    """What a search says whose winner has the second rate."""
    price, trainings = CONFIG.price, CONFIG.trainings
    phase = {"step": 0, "sample_rate": 0.002, "noise_multiplier": 2.0}
    phase |= {"mean_trials": 1.0, "steps": trainings, "delta": price.delta}
    done = {"seconds": 1.5, "step": trainings, "epsilon": price.epsilon}
    return [
        Event("phase", phase | {"status": "bound"}),
        *(
            Event("step", done | {"step": i, "epsilon": 0.0, "diagnostics": {}})
            for i in range(1, trainings + 1)
        ),
        *(Event("evaluation", done | REACHED | {"trained": i}) for i in (1, 2)),
        Event(
            "end",
            done
            | REACHED
            | {"delta": price.delta, "winner": {"learning_rate": 4.0}, "receipt": {}},
        ),
    ]


@pytest.fixture
def finished(client, store, log):
    return ended(store, launched(client).json["id"], log)


def test_the_price_is_that_of_the_library(reading):
    query = SMALL | {"mean_trials": 10, "learning_rate_values": "1 2 4"}
    answer = reading.get(PRICE, query_string=query).json
    plan = Plan.create(
        sample_size=32_561,
        expected_batch_size=4096,
        steps=4,
        target_epsilon=1.0,
        delta=1e-5,
    )
    rates = (plan.sample_rate, plan.noise_multiplier)
    price = padded_selection(
        RdpCurve.of([Phase(*rates, 4)]), mean_trials=10.0, delta=1e-5
    )
    assert answer["winner"]["epsilon"] == rounded(price.epsilon)
    assert answer["trainings"] == price.trainings
    assert answer["trial"]["epsilon"] == rounded(in_order(epsilon, *rates, 4, 1e-5))
    assert answer["all_shown"]["epsilon"] == rounded(
        in_order(epsilon, *rates, 40, 1e-5)
    )
    assert answer["shown"] == 10
    statuses = [answer[name]["status"] for name in ("winner", "trial", "all_shown")]
    assert statuses == ["bound", "exact", "exact"]
    assert float(answer["none_percent"]) >= 100 * math.exp(-10)


@pytest.mark.parametrize(
    ("asked", "field", "says"),
    [
        ({"learning_rate_values": "4 fast"}, "learning_rate_values", "'fast'"),
        ({"learning_rate_values": None}, "learning_rate_values", "2 or more"),
        ({"learning_rate_values": [1, 2]}, "learning_rate_values", "text"),
        ({"mean_trials": "ten"}, "mean_trials", "a number"),
        ({"private": False}, "private", "must have privacy"),
        ({"stop_at_epsilon": 1.0}, "stop_at_epsilon", "left out"),
        ({"expected_batch_size": 32_561, "steps": 90_000}, "mean_trials", "at most"),
        ({"purpose": "sweep"}, "purpose", "unknown setting"),
    ],
    ids=str,
)
def test_what_cannot_be_searched_is_refused_at_its_place(client, asked, field, says):
    error_of(launched(client, **asked), 422, field, says)
    assert client.get(RUNS).json["runs"] == []


def test_a_price_of_nothing_is_refused_too(reading):
    query = SEARCH | {"learning_rate_values": "4"}
    answer = reading.get(PRICE, query_string=query)
    error_of(answer, 422, "learning_rate_values", "2 or more")


def test_its_page_says_the_price_before_it_begins(client):
    run = launched(client).json
    assert (run["state"], run["kind"], run["privacy"]) == ("queued", "search", None)
    text = client.get(run["links"]["page"]).text
    price = client.get(PRICE, query_string=SEARCH).json
    assert f'<td class="n">{price["winner"]["epsilon_text"]}</td>' in text
    assert '<span class="badge bound">bound</span>' in text
    assert f"trains {price['trainings']} models" in text
    assert "No <var>ε</var> here covers test records" in text
    assert "Blind search, Adult income, ε = 0.05 per trial" in text
    assert page_data(text)["running"] == KINDS["search"].running


def test_it_has_no_twin_and_no_link_to_the_trainer(client):
    """Its trials are many trainings."""
    links = launched(client).json["links"]
    assert "trainer" not in links
    refusal = error_of(client.get(links["twin"]), 422)
    assert refusal["field"] == "kind"


def test_a_finished_search_spends_what_its_choice_costs(client, finished, log):
    run = client.get(f"{RUNS}/{finished}").json
    assert run["privacy"]["epsilon"] == rounded(CONFIG.price.epsilon)
    assert run["privacy"]["status"] == "bound"
    assert run["summary"]["test_accuracy"] == log[-1].data["test_accuracy"]
    listed = client.get("/runs/?kind=search").text
    assert run["privacy"]["epsilon_text"] in listed


def test_its_statement_claims_the_price_of_the_choice_and_cites_its_bound(
    client, finished
):
    page = client.get(f"/runs/{finished}/").text
    [text] = re.findall(r'id="privacy-statement" data-text>([^<]*)<', page)
    spent = client.get(f"{RUNS}/{finished}").json["privacy"]
    trial = CONFIG.first_trial.plan
    for words in (
        f"ε = {spent['epsilon_text']} and δ = 1e-5",
        "Poisson distribution of mean 1",
        "one of 2 combinations (learning rate 0.5, 4)",
        "the others and their number are not",
        f"2 steps with probability {trial.sample_rate:.4g}",
        f"L2 norm at most {CONFIG.max_grad_norm:g}",
        "an upper bound, rounded up",
        "test records",
        "secret",
    ):
        assert words in text
    [noise] = re.findall(r"in all ([\d.]+) times", text)
    assert float(noise) >= trial.noise_multiplier
    assert "@misc{papernot2022," in page
    assert text in client.get(f"{RUNS}/{finished}/export.html").text


def test_the_statement_of_a_searched_bound_names_no_bound(client, store, log):
    bounds = {"learning_rate_values": None, "max_grad_norm_values": "0.125 0.25"}
    run_id = ended(store, launched(client, **bounds).json["id"], log)
    page = client.get(f"/runs/{run_id}/").text
    assert "at most the bound it drew" in page
    assert "(clipping bound 0.125, 0.25)" in page


def test_its_card_says_the_winner_and_what_the_choice_costs(client, finished, log):
    page = client.get(f"/runs/{finished}/").text
    assert f"{RUNS}/{finished}/card.svg" in page
    card = client.get(f"{RUNS}/{finished}/card.svg")
    assert card.mimetype == "image/svg+xml"
    spent = client.get(f"{RUNS}/{finished}").json["privacy"]["epsilon_text"]
    reached = f"{100 * log[-1].data['test_accuracy']:.1f} %"
    for words in (
        "Blind search: Logistic regression on Adult income",
        f"ε = {spent}</text>",
        f">{reached}</text>",
        "bound, including the choice",
        "step of the winner",
    ):
        assert words in card.text, words


def test_a_search_without_a_winner_has_no_card(client, store, log):
    nothing = dict.fromkeys(("test_accuracy", "test_loss", "winner"))
    end = Event("end", log[-1].data | nothing)
    run_id = ended(store, launched(client).json["id"], [*log[:-3], end])
    assert "card.svg" not in client.get(f"/runs/{run_id}/").text
    error_of(client.get(f"{RUNS}/{run_id}/card.svg"), 404, says="when it has a winner")
    text = client.get("/runs/pareto").text
    assert "1 ended without an accuracy" in text
    # That there is no winner was released, and costs what any answer does.
    assert f"ε = {price_of(client, run_id)}</strong>" in text


def price_of(client, run_id):
    return client.get(f"{RUNS}/{run_id}").json["privacy"]["epsilon_text"]


def test_a_winner_is_a_dot_and_counts_at_the_price_of_its_choice(
    client, store, finished, log
):
    launched(client, seed=2)  # nothing of it is released
    text = client.get("/runs/pareto").text
    assert "1 of 1 runs is on the front" in text
    price = price_of(client, finished)
    assert f"ε = {price}</strong>" in text
    assert "1 run has not taken a step" in text
    assert "the ε of the choice, and the losing trials do not count" in text
    linked = client.get(f"/runs/pareto?ids={finished}").text
    assert "is not a training" not in linked
    assert f'It spent <strong class="num">ε = {price}' in linked


def test_a_search_that_is_stopped_has_released_nothing(client, store, log):
    run_id = launched(client).json["id"]
    ended(store, run_id, log[:4], state="cancelled")
    run = client.get(f"{RUNS}/{run_id}").json
    assert (run["privacy"]["epsilon"], run["step"]) == (0, 3)
    page = client.get(run["links"]["page"]).text
    assert "It ended before it released its winner" in page
    assert "privacy-statement" not in page


def test_no_accountant_of_steps_counts_it(client, finished):
    answer = client.get(f"{RUNS}/{finished}/epsilon")
    error_of(answer, 422, "accountant", "a bound on the best")
    whole = json.loads(client.get(f"{RUNS}/{finished}/export.json").text)
    assert whole["odometer"] is None


def test_it_is_taken_away_with_its_winner_and_no_more(client, finished, log):
    rows = client.get(f"{RUNS}/{finished}/export.csv").text.splitlines()
    assert len(rows) == 1 + sum(e.kind in ("step", "evaluation") for e in log)
    report = client.get(f"{RUNS}/{finished}/export.html").text
    assert "The winner’s test accuracy" in report
    script = client.get(f"{RUNS}/{finished}/export.py").text
    assert "SearchConfig(" in script
    assert repr(log[-1].data["test_loss"]) in script
    assert str(CONFIG.trainings) not in script


@pytest.mark.long("real runs")
def test_its_script_repeats_the_winner(client, store, tmp_path):
    run_id = launched(client, seed=2).json["id"]
    ended(store, run_id, list(start(SearchConfig.parse(SEARCH | {"seed": 2})).events()))
    script = tmp_path / "repeat.py"
    script.write_text(client.get(f"{RUNS}/{run_id}/export.py").text)
    recorded, repeated = run_python([str(script)], "").splitlines()[-2:]
    assert recorded.removeprefix("recorded") == repeated.removeprefix("repeated")
    assert "test_accuracy': 0." in repeated


def test_a_search_cannot_be_changed_on_the_way(client, store, log):
    run_id = launched(client).json["id"]
    claim = store.leases.claim(run_id)
    store.leases.append(claim, [Event("phase", log[0].data)])
    answer = client.post(f"{RUNS}/{run_id}/change", json={"learning_rate": 1})
    error_of(answer, 422, "learning_rate", "cannot be changed")
