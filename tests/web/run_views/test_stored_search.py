"""A blind search that an earlier version ran still opens, and no other is launched."""

import json
import re

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.kinds import parse
from dpsgd_explorer.web.http.visitor import known_visitor
from dpsgd_explorer.web.questions.privacy import rounded
from tests.stored_runs import stored_search
from tests.web.conftest import SMALL, ended, error_of

RUNS = "/api/v1/runs"
CONFIG, LOG = stored_search()
WINNER = LOG[-1].data


@pytest.fixture
def visitor(client):
    """The visitor of the client, who has a cookie."""
    client.post(RUNS, json=SMALL)
    with client:
        client.get("/runs/")
        return known_visitor()


@pytest.fixture
def store_search(store, visitor):
    """Store a search as it is in an old instance folder; return its id."""

    def store_search(log=LOG, config=CONFIG, **state):
        return ended(store, store.create(config, visitor=visitor).id, log, **state)

    return store_search


@pytest.fixture
def search(store_search):
    return store_search()


def page_of(client, run_id):
    answer = client.get(f"/runs/{run_id}/")
    assert answer.status_code == 200
    return answer.text


def test_its_page_shows_winner_results_and_price(client, search):
    page = page_of(client, search)
    assert "Learning rate 2<" in page
    rows = re.findall(r"<td[^>]*>(\d+)</td><td[^>]*>([\d.]+) %</td>", page)
    measured = [event.data for event in LOG if event.kind == "evaluation"]
    assert rows == [
        (str(point["trained"]), f"{100 * point['test_accuracy']:.2f}")
        for point in measured
    ]
    assert client.get(f"{RUNS}/{search}").json["privacy"]["epsilon_text"] in page
    assert "Blind search, Adult income" in page
    assert "/learn/planning-a-budget/#choosing" in page
    assert "Stop run" not in page


def test_it_spent_what_its_choice_cost(client, search):
    run = client.get(f"{RUNS}/{search}").json
    assert run["privacy"]["epsilon"] == rounded(WINNER["epsilon"])
    assert run["privacy"]["status"] == "bound"
    assert rounded(CONFIG.price.epsilon) == run["privacy"]["epsilon"]
    assert run["privacy"]["epsilon_text"] in client.get("/runs/?kind=search").text
    error_of(client.get(f"{RUNS}/{search}/epsilon"), 422, "accountant", "a bound")


def test_every_link_of_it_answers(client, search):
    links = client.get(f"{RUNS}/{search}").json["links"]
    assert "trainer" not in links
    for name in ("self", "page", "log", *(x for x in links if x.startswith("export"))):
        assert client.get(links[name]).status_code == 200, name
    error_of(client.get(links["twin"]), 422, "kind")


def test_its_exports_hold_its_results(client, search):
    receipt = client.get(f"{RUNS}/{search}/receipt.json").json
    assert receipt == WINNER["receipt"]
    whole = json.loads(client.get(f"{RUNS}/{search}/export.json").text)
    assert whole["odometer"] is None
    rows = client.get(f"{RUNS}/{search}/export.csv").text.splitlines()
    assert len(rows) == 1 + sum(e.kind in ("step", "evaluation") for e in LOG)
    script = client.get(f"{RUNS}/{search}/export.py").text
    assert "SearchConfig(" in script
    assert "cannot repeat it" in script
    assert repr(WINNER["test_loss"]) in script
    card = client.get(f"{RUNS}/{search}/card.svg").text
    assert "bound, including the choice" in card


def test_its_statement_claims_the_price_of_the_choice(client, search):
    page = page_of(client, search)
    [text] = re.findall(r'id="privacy-statement" data-text>([^<]*)<', page)
    spent = client.get(f"{RUNS}/{search}").json["privacy"]
    for words in (
        f"ε = {spent['epsilon_text']} and δ = 1e-5",
        "Poisson distribution of mean 3",
        "one of 2 combinations (learning rate 0.5, 2)",
        f"4 steps with probability {CONFIG.plan.sample_rate:.4g}",
    ):
        assert words in text
    assert text in client.get(f"{RUNS}/{search}/export.html").text
    assert "@misc{papernot2022," in page


def test_the_statement_of_a_searched_bound_names_no_bound(client, store_search):
    lists = {"learning_rate_values": None, "max_grad_norm_values": "0.125 0.25"}
    config = parse(CONFIG.model_dump(mode="json") | lists)
    page = page_of(client, store_search(config=config))
    assert "at most the bound it drew" in page
    assert "(clipping bound 0.125, 0.25)" in page


def test_one_without_a_winner_says_so(client, store_search):
    nothing = dict.fromkeys(("test_accuracy", "test_loss", "winner"))
    log = [e for e in LOG if e.kind != "evaluation"]
    run_id = store_search([*log[:-1], Event("end", WINNER | nothing)])
    assert "There is none" in page_of(client, run_id)
    error_of(client.get(f"{RUNS}/{run_id}/card.svg"), 404, says="when it has a winner")


def test_one_that_was_stopped_has_released_nothing(client, store_search):
    run_id = store_search(LOG[:4], state="cancelled")
    run = client.get(f"{RUNS}/{run_id}").json
    assert (run["privacy"]["epsilon"], run["step"]) == (0, 3)
    page = page_of(client, run_id)
    assert "ended before its winner was released" in page
    assert "privacy-statement" not in page


def test_one_that_waited_at_an_upgrade_says_why_it_failed(client, store, visitor):
    """It was queued by an earlier version, and this version cannot carry it out."""
    run_id = store.create(CONFIG, visitor=visitor).id
    error = {"code": "refused", "message": "can no longer be launched"}
    store.leases.finish(store.leases.claim(run_id), "failed", error=error)
    page = page_of(client, run_id)
    assert re.search(r'class="error[^>]*>can no longer be launched<', page)


def test_its_winner_is_a_dot_at_the_price_of_the_choice(client, search):
    text = client.get("/runs/pareto").text
    assert "1 of 1 runs is on the front" in text
    assert client.get(f"{RUNS}/{search}").json["privacy"]["epsilon_text"] in text


def test_no_search_is_launched(client):
    answer = client.post(RUNS, json=SMALL | {"kind": "search"})
    error_of(answer, 422, "kind", "can no longer be launched")
    error_of(client.get("/api/v1/privacy/search"), 410, says="no longer be launched")
