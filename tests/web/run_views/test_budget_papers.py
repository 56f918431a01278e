"""What the papers of a run with a budget for changes say: the whole budget, no less."""

import csv
import io
import json

import pytest

from dpsgd_explorer.accounting import RenyiFilter
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.experiments.mid_run import along
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.questions.privacy import rounded
from dpsgd_explorer.web.questions.rounding import need
from tests.stored_runs import ADULT, log_of
from tests.web.conftest import ended, error_of

RUNS = "/api/v1/runs"
BUDGET = {k: v for k, v in ADULT.items() if k != "target_epsilon"} | {
    "noise_multiplier": 2.0,
    "filter_epsilon": 6.0,
    "clipping_fn": "automatic",
}
CONFIG = TrainingConfig.parse(BUDGET)
CHANGES = [
    (10, {"noise_multiplier": 1.6, "learning_rate": 4.0}),
    (40, {"further_steps": 12}),
]
NOW, SPENDING = along(CONFIG, CHANGES)


@pytest.fixture
def changed(client, store):
    """A run of 52 steps: its noise was changed, and it was continued."""
    run_id = client.post(RUNS, json=BUDGET).json["id"]
    return ended(store, run_id, log_of(CONFIG, changes=CHANGES))


@pytest.fixture
def unchanged(client, store):
    run_id = client.post(RUNS, json=BUDGET).json["id"]
    return ended(store, run_id, log_of(CONFIG))


def exported(client, run_id, extension):
    return client.get(f"{RUNS}/{run_id}/export.{extension}").text


@pytest.mark.parametrize("which", ["changed", "unchanged"])
def test_the_epsilon_of_a_budget_is_all_of_it_and_no_accountants(
    client, request, which
):
    run_id = request.getfixturevalue(which)
    answer = client.get(f"{RUNS}/{run_id}/epsilon").json
    terms = (answer["epsilon"], answer["accountant"], answer["status"])
    assert terms == (6.0, FILTER, RenyiFilter.status)
    assert (answer["lower"], answer["upper"]) == (None, 6.0)
    for name in ("exact", "rdp"):
        query = {"accountant": name}
        asked = client.get(f"{RUNS}/{run_id}/epsilon", query_string=query)
        error_of(asked, 422, "accountant", "chosen from earlier results")


def test_the_curve_of_a_budget_is_what_the_filter_counted(client, changed):
    curve = client.get(f"{RUNS}/{changed}/epsilon").json["curve"]
    assert curve["steps"] == list(range(53))
    counted = SPENDING.epsilons(range(53)).values()
    assert curve["epsilon"] == [rounded(value) for value in counted]
    assert curve["epsilon"][-1] < 6.0


def test_a_budget_before_its_first_step_is_not_spent(client, store):
    run_id = client.post(RUNS, json=BUDGET).json["id"]
    store.leases.append(store.leases.claim(run_id), log_of(CONFIG, 0))
    answer = client.get(f"{RUNS}/{run_id}/epsilon").json
    assert (answer["epsilon"], answer["curve"]["steps"]) == (0.0, [0])


def test_the_json_export_has_a_filter_and_no_odometer(client, changed, unchanged):
    whole = json.loads(exported(client, changed, "json"))
    assert whole["odometer"] is None
    told = whole["filter"]
    assert (told["epsilon"], told["delta"], told["status"]) == (6.0, 1e-5, "bound")
    going_on = RenyiFilter(told["epsilon"], told["delta"], order=told["order"])
    for phase in SPENDING.phases:
        going_on.spend(phase.sample_rate, phase.noise_multiplier, phase.steps)
    assert told["divergence_spent"] == pytest.approx(going_on.spent, rel=1e-12)
    assert told["divergence_budget"] == going_on.budget
    fewer = json.loads(exported(client, unchanged, "json"))["filter"]
    assert 0 < fewer["divergence_spent"] < told["divergence_spent"]
    assert whole["privacy"]["epsilon"] == whole["summary"]["epsilon"] == 6.0


def test_a_run_by_plan_has_an_odometer_and_no_filter(client, store):
    run_id = client.post(RUNS, json=ADULT).json["id"]
    ended(store, run_id, log_of(TrainingConfig.parse(ADULT)))
    whole = json.loads(exported(client, run_id, "json"))
    assert whole["filter"] is None
    assert whole["odometer"] is not None
    rows = csv.DictReader(io.StringIO(exported(client, run_id, "csv")))
    assert "budget" not in rows.fieldnames


def test_the_table_calls_what_a_filter_counted_so(client, changed):
    rows = list(csv.DictReader(io.StringIO(exported(client, changed, "csv"))))
    terms = {(row["accountant"], row["status"], row["budget"]) for row in rows}
    assert terms == {(FILTER, "counted", "6.0")}
    assert float(rows[-1]["epsilon"]) < 6.0


def test_statement_and_sources_are_of_the_filter(client, changed):
    page = client.get(f"/runs/{changed}/").text
    for words in (
        "private with ε = 6.00 and",
        "the budget that was fixed before the first step, an upper bound",
        "After step 10 settings were changed by choice (noise multiplier = 1.6",
        "After step 40 it was continued by choice for 12 steps",
        "ε holds if this choice used private outputs alone",
        "each of 52 steps with probability",
        f"in all {need(1.6)} to {need(2.0)} times the sensitivity",
    ):
        assert words in page
    cited = page[page.index('aria-label="BibTeX"') :]
    for key in ("abadi", "feldman", "mironov2017", "balle_sampling", "bu"):
        assert SOURCES[key].arxiv in cited


def test_the_report_claims_the_budget_and_says_what_was_chosen(client, changed):
    report = exported(client, changed, "html")
    assert "ε = 6.00</strong>" in report
    assert "by accountant filter (bound)" in report
    assert "the whole budget, fixed before the first step" in report
    assert "Settings or length were chosen while looking" in report
    assert ">ε counted</th>" in report
    assert "ε counted by the filter" in report
    assert "ε spent" not in report


def test_the_card_claims_the_budget(client, changed, unchanged):
    card = client.get(f"{RUNS}/{changed}/card.svg").text
    assert "ε = 6.00" in card
    assert "bound, chosen while looking" in card
    assert "ε counted by the filter" in card
    assert "chosen while looking" not in client.get(f"{RUNS}/{unchanged}/card.svg").text


def test_continued_runs_are_compared_at_their_budgets(client, changed, unchanged):
    page = client.get(f"/runs/compare?ids={changed},{unchanged}")
    assert page.status_code == 200
    assert "continued after step 40 for 12 steps" in page.text
    assert "A and B are drawn at the ε that their filters counted" in page.text
    assert "from step 11: " in page.text
    front = client.get("/runs/pareto")
    assert front.status_code == 200
    assert "chosen while looking" in front.text


def test_the_page_names_no_accountant_beside_a_filter(client, changed):
    page = client.get(f"/runs/{changed}/").text
    assert "Privacy filter" in page
    assert "<dt>Accountant" not in page
