"""A run's ε as another accountant counts it, from its log alone."""

import pytest

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.privacy import rounded
from tests.web.conftest import SMALL, ended, error_of, recorded_events

RUN = {"sample_rate": 0.01, "noise_multiplier": 1.5, "delta": 1e-6, "steps": 4}


def phase(step, **changes):
    return Event("phase", RUN | {"step": step} | changes)


@pytest.fixture
def run_with(client, store):
    """Make a run whose log begins with these phases."""

    def make_run(*phases):
        run_id = client.post("/api/v1/runs", json=SMALL).json["id"]
        ended(store, run_id, [*phases, *recorded_events()[1:]])
        return f"/api/v1/runs/{run_id}/epsilon"

    return make_run


@pytest.mark.parametrize("name", [name for name in ACCOUNTANTS if name != "zcdp"])
def test_the_log_is_enough_to_count_again(other_visitor, run_with, name):
    address = run_with(phase(0))
    answer = other_visitor.get(address, query_string={"accountant": name})
    run = Phase(0.01, 1.5, 4)
    truth = ACCOUNTANTS[name].epsilons([run], [0, 1, 2, 3, 4], 1e-6)
    assert answer.json["curve"]["steps"] == [0, 1, 2, 3, 4]
    assert answer.json["curve"]["epsilon"] == [rounded(float(v)) for v in truth]
    assert answer.json["epsilon"] == rounded(float(truth[-1]))
    assert (answer.json["delta"], answer.json["accountant"]) == (1e-6, name)
    assert answer.json["status"] == ACCOUNTANTS[name].status


def test_an_accountant_that_knows_no_sampling_refuses_to_count(client, run_with):
    answer = client.get(run_with(phase(0)), query_string={"accountant": "zcdp"})
    assert "not amplified by sampling" in error_of(answer, 422)["message"]


def test_a_count_whose_sides_do_not_meet_is_called_a_bound(client, run_with):
    hard = phase(0, sample_rate=1e-5, noise_multiplier=0.05, delta=1e-5)
    assert client.get(run_with(hard)).json["status"] == "bound"


def test_a_change_of_settings_on_the_way_counts(client, run_with):
    address = run_with(phase(0), phase(2, noise_multiplier=0.8))
    answer = client.get(address, query_string={"accountant": "rdp"}).json
    phases = [Phase(0.01, 1.5, 2), Phase(0.01, 0.8, 2)]
    truth = ACCOUNTANTS["rdp"].epsilons(phases, [0, 1, 2, 3, 4], 1e-6)
    assert answer["curve"]["epsilon"] == [rounded(float(value)) for value in truth]


def test_without_noise_there_is_nothing_to_count(client, run_with):
    address = run_with(phase(0, noise_multiplier=None))
    error = error_of(client.get(address, query_string={"accountant": "rdp"}), 422)
    assert "no noise to count" in error["message"]


def test_a_run_that_has_not_begun_has_spent_nothing_to_count(client, run_id):
    address = f"/api/v1/runs/{run_id}/epsilon?accountant=rdp"
    assert error_of(client.get(address), 422)["field"] == "accountant"


def test_the_runs_own_accountant_counts_unless_another_is_named(client, run_with):
    address = run_with(phase(0))
    assert client.get(address).json["accountant"] == TrainingConfig().accountant
    error = error_of(client.get(address, query_string={"accountant": "guess"}), 422)
    assert "one of" in error["message"]


def test_a_run_for_all_accountants_is_counted_by_the_exact_one(client, run_with):
    address = run_with(phase(0))
    every = client.get(address, query_string={"accountant": "all"}).json
    assert every == client.get(address, query_string={"accountant": "exact"}).json


def test_an_unknown_run(reading):
    error_of(reading.get("/api/v1/runs/nope/epsilon?accountant=rdp"), 404)


def test_a_run_says_where_it_is_counted(client, run_id):
    links = client.get(f"/api/v1/runs/{run_id}").json["links"]
    assert links["epsilon"] == f"/api/v1/runs/{run_id}/epsilon"
